// Calls tools with the official clients for whoever runs this: one JSON request a line on stdin,
// {n, generation, token, tool, arguments}; one JSON answer a line on stdout, {n, result} or
// {n, error}, in whatever order they come. Ends with its input. Judges nothing.
import { createInterface } from 'node:readline';

const url = new URL(process.env.MCP_URL);
const sdks = { v1: import('./v1.mjs'), v2: import('./v2.mjs') };
/** One client for each generation and token, once it is connected. */
const clients = new Map();

async function client(generation, token) {
  const key = `${generation} ${token}`;
  if (!clients.has(key)) {
    const connecting = sdks[generation].then((sdk) =>
      sdk.connect(url, { Authorization: `Bearer ${token}` }),
    );
    clients.set(key, connecting);
    // The next call tries again.
    connecting.catch(() => clients.delete(key));
  }
  return clients.get(key);
}

async function answer({ n, generation, token, tool, arguments: args }) {
  try {
    return { n, result: await (await client(generation, token)).call(tool, args) };
  } catch (error) {
    return { n, error: { code: error.code ?? error.status ?? null, message: error.message } };
  }
}

const pending = new Set();
for await (const line of createInterface({ input: process.stdin })) {
  const call = answer(JSON.parse(line)).then((reply) => {
    process.stdout.write(`${JSON.stringify(reply)}\n`);
    pending.delete(call);
  });
  pending.add(call);
}
await Promise.all(pending);
await Promise.allSettled([...clients.values()].map(async (connected) => (await connected).close()));
