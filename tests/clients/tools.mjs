// What an agent does with an official client: finds the tools, spawns a workspace, upgrades it,
// follows that to its end, and runs into refusals. Prints one JSON report; judges nothing.
const { MCP_URL, TOKEN, STRANGERS_TOKEN, GENERATION, TEMPLATE } = process.env;
const sdk = await import(`./${GENERATION}.mjs`);
const url = new URL(MCP_URL);
const bearer = (token) => ({ Authorization: `Bearer ${token}` });

/** Calls `look` until it returns something; the whole script is bounded by whoever runs it. */
async function until(what, look, within = 120_000) {
  const end = Date.now() + within;
  for (;;) {
    const seen = await look();
    if (seen.holds) return seen.value;
    if (Date.now() > end) throw new Error(`waited for ${what}; last seen: ${JSON.stringify(seen.value)}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

const client = await sdk.connect(url, bearer(TOKEN));
const tools = await client.listTools();

/** The structured answer of a tool. */
async function call(name, args = {}, onprogress) {
  const result = await client.call(name, args, onprogress);
  if (result.isError) throw new Error(`${name}: ${result.content[0]?.text}`);
  return result.structuredContent;
}

const id = TEMPLATE;
const spawned = await call('spawn_workspace', { template: TEMPLATE, id, name: 'By an agent' });
const workspace = async (holds) => {
  const value = await call('get_workspace', { id });
  return { holds: holds(value), value };
};
const running = await until('the workspace to run', () => workspace((w) => w.status === 'running'));
// The suite edits the template once the workspace is routed to.
const outdated = await until('a newer version', () => workspace((w) => w.outdated === true));
const listed = (await call('list_workspaces')).workspaces.map((w) => w.id);

const upgrade = await call('upgrade_workspace', { id });
const again = await call('upgrade_workspace', { id });
const progress = [];
const waits = [];
let sinceRevision;
do {
  const args = { operationId: upgrade.operationId, seconds: 25, ...(sinceRevision && { sinceRevision }) };
  const waited = await call('wait_for_operation', args, (told) => progress.push({ ...told, call: waits.length }));
  waits.push(waited);
  sinceRevision = waited.revision;
} while (!waits.at(-1).done && waits.length < 40);
const upgraded = await call('get_workspace', { id });

const stranger = await sdk.connect(url, bearer(STRANGERS_TOKEN));
const refusals = {
  absent: await stranger.call('get_workspace', { id: 'there-is-none' }),
  anothers: await stranger.call('get_workspace', { id }),
  absentUpgrade: await stranger.call('upgrade_workspace', { id: 'there-is-none' }),
  anothersUpgrade: await stranger.call('upgrade_workspace', { id }),
  badArguments: await stranger.call('get_workspace', { id: 5 }),
  badTemplate: await stranger.call('spawn_workspace', { template: 'there-is-none' }),
};

/** How a call fails that should not succeed. */
async function failure(attempt) {
  try {
    await attempt();
    return null;
  } catch (error) {
    return { name: error.constructor.name, code: error.code ?? error.status ?? null, message: error.message };
  }
}
const unknownTool = await failure(() => stranger.call('there_is_none', {}));
const unauthenticated = {
  without: await failure(() => sdk.connect(url, {})),
  forged: await failure(() => sdk.connect(url, bearer(`${TOKEN.slice(0, -8)}AAAAAAAA`))),
};
// From the challenge alone the client finds where to sign in.
const challenge = sdk.extractWWWAuthenticateParams(await fetch(url, { method: 'POST' }));
const resource = await sdk.discoverOAuthProtectedResourceMetadata(url, challenge);
const issuer = await sdk.discoverAuthorizationServerMetadata(resource.authorization_servers[0]);

await call('delete_workspace', { id });
await until('the workspace to be gone', async () => {
  const { isError, content } = await client.call('get_workspace', { id });
  return { holds: isError === true, value: content };
});
await Promise.all([client.close(), stranger.close()]);
const { protocol, server, instructions } = client;
console.log(JSON.stringify({
  protocol, server, instructions, tools, spawned, running, outdated, listed, upgrade, again, waits, progress,
  upgraded, refusals, unknownTool, unauthenticated, challenge, resource, issuer,
}));
