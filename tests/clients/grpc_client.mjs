// Makes every kind of gRPC call through the edge, and prints what came of it as JSON. Judges nothing.
// ADDRESS: where the edge listens; HOST: whom it is asked for; TOKEN: a bearer token.
import grpc from '@grpc/grpc-js';
import { methods } from './grpc_server.mjs';

const { ADDRESS, HOST, TOKEN } = process.env;
const MESSAGE = 3 * 1024 * 1024;
const client = new grpc.Client(ADDRESS, grpc.credentials.createInsecure(), {
  'grpc.default_authority': HOST,
});

function metadata(more = {}) {
  const all = new grpc.Metadata();
  all.set('authorization', `Bearer ${TOKEN}`);
  for (const [key, value] of Object.entries(more)) all.set(key, value);
  return all;
}

const bytes = (value) => value;
const path = (name) => methods[name].path;

/** What a call of one answer came to. */
function settled(begin) {
  return new Promise((resolve) => {
    const result = {};
    const call = begin((error, answer) => {
      if (error) Object.assign(result, { code: error.code, details: error.details });
      else Object.assign(result, { code: 0, answer });
    });
    call.on('metadata', (first) => (result.first = first.get('x-first')[0]));
    call.on('status', (status) => {
      result.trailer = status.metadata.get('x-trailer')[0];
      setImmediate(() => resolve(result));
    });
  });
}

const unary = (name, message, { options = {}, more = {} } = {}) =>
  settled((callback) =>
    client.makeUnaryRequest(path(name), bytes, bytes, message, metadata(more), options, callback),
  );

/** What a call of several answers came to; `each` may end it. */
function streamed(call, each = () => {}) {
  return new Promise((resolve) => {
    const messages = [];
    call.on('data', (message) => {
      messages.push(message);
      each(messages.length, call);
    });
    call.on('error', () => {});
    call.on('status', (status) =>
      resolve({
        code: status.code,
        details: status.details,
        trailer: status.metadata.get('x-trailer')[0],
        messages,
      }),
    );
  });
}

const streaming = (name, message, more = {}) =>
  client.makeServerStreamRequest(path(name), bytes, bytes, message, metadata(more));
const seen = async () => JSON.parse((await unary('Seen', Buffer.alloc(0))).answer.toString());
const until = async (condition) => {
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, 50));
};

const out = {};
const echo = await unary('Echo', Buffer.from('hello'), { more: { 'x-asked': 'yes' } });
out.echo = { ...echo, answer: echo.answer?.toString() };
out.user = (await seen()).user;
const large = Buffer.alloc(MESSAGE, 'abc');
const back = await unary('Echo', large);
out.large = { code: back.code, same: back.answer ? large.equals(back.answer) : false };
out.fail = await unary('Fail', Buffer.alloc(0));

const count = await streamed(streaming('Count', Buffer.from('1000')));
out.count = {
  ...count,
  messages: count.messages.length,
  ordered: count.messages.every((message, n) => message.toString() === String(n)),
};
const broken = await streamed(streaming('Break', Buffer.alloc(0)));
out.broken = { ...broken, messages: broken.messages.length };

const sum = await settled((callback) => {
  const call = client.makeClientStreamRequest(path('Sum'), bytes, bytes, metadata(), callback);
  for (let n = 0; n < 200; n += 1) call.write(Buffer.alloc(16 * 1024));
  call.end();
  return call;
});
out.sum = { ...sum, answer: sum.answer?.toString() };

const chat = client.makeBidiStreamRequest(path('Chat'), bytes, bytes, metadata());
chat.write(Buffer.from('0'));
// Each is said once the one before was answered.
const talked = await streamed(chat, (answers, call) => {
  if (answers < 100) call.write(Buffer.from(String(answers)));
  else call.end();
});
out.chat = { code: talked.code, last: talked.messages.at(-1)?.toString() };

const before = (await seen()).cancelled;
out.deadline = await unary('Never', Buffer.alloc(0), { options: { deadline: Date.now() + 500 } });
await until(async () => (await seen()).cancelled === before + 1);
const left = await streamed(streaming('Count', Buffer.from('3'), { 'x-open': '1' }), (n, call) => {
  if (n === 3) call.cancel();
});
out.left = { code: left.code, messages: left.messages.length };
await until(async () => (await seen()).cancelled === before + 2);
out.cancelled = (await seen()).cancelled - before;

const pour = streaming('Pour', Buffer.from('512'));
let poured = 0;
let kept = null;
const done = streamed(pour, (n, call) => {
  poured = n;
  if (n === 1) call.pause();
});
await until(() => poured > 0);
// Nobody takes anything, so before long nothing more is said.
let last = -1;
await until(async () => {
  kept = (await seen()).poured;
  const still = kept === last;
  last = kept;
  if (!still) await new Promise((resolve) => setTimeout(resolve, 300));
  return still;
});
pour.resume();
const all = await done;
out.pour = { code: all.code, messages: all.messages.length, kept, trailer: all.trailer };
console.log(JSON.stringify(out));
client.close();
