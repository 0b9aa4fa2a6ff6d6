// A gRPC server of four kinds of calls, whose messages are bytes. Prints its port. Ends with its input.
import grpc from '@grpc/grpc-js';

const bytes = (value) => value;
const method = (name, requestStream, responseStream) => ({
  path: `/nogoo9.Test/${name}`,
  requestStream,
  responseStream,
  requestSerialize: bytes,
  requestDeserialize: bytes,
  responseSerialize: bytes,
  responseDeserialize: bytes,
});
export const methods = {
  Echo: method('Echo', false, false),
  Fail: method('Fail', false, false),
  Never: method('Never', false, false),
  Seen: method('Seen', false, false),
  Count: method('Count', false, true),
  Break: method('Break', false, true),
  Pour: method('Pour', false, true),
  Sum: method('Sum', true, false),
  Chat: method('Chat', true, true),
};

const seen = { cancelled: 0, poured: 0, user: null };

function trailer() {
  const metadata = new grpc.Metadata();
  metadata.set('x-trailer', 'kept');
  return metadata;
}

const handlers = {
  Echo(call, callback) {
    seen.user = call.metadata.get('x-user-sub')[0];
    const first = new grpc.Metadata();
    first.set('x-first', String(call.metadata.get('x-asked')[0]));
    call.sendMetadata(first);
    callback(null, call.request, trailer());
  },
  Fail(_, callback) {
    callback({ code: grpc.status.FAILED_PRECONDITION, details: 'not so: 100 % ü', metadata: trailer() });
  },
  Never(call) {
    call.on('cancelled', () => (seen.cancelled += 1));
  },
  Seen(_, callback) {
    callback(null, Buffer.from(JSON.stringify(seen)));
  },
  Count(call) {
    call.on('cancelled', () => (seen.cancelled += 1));
    const count = Number(call.request.toString());
    for (let n = 0; n < count; n += 1) call.write(Buffer.from(String(n)));
    // Without an end if there is none to count to.
    if (count >= 0 && !call.metadata.get('x-open').length) call.end(trailer());
  },
  Break(call) {
    for (let n = 0; n < 3; n += 1) call.write(Buffer.from(String(n)));
    call.emit('error', { code: grpc.status.ABORTED, details: 'enough' });
  },
  async Pour(call) {
    const piece = Buffer.alloc(64 * 1024, 'x');
    const count = Number(call.request.toString());
    for (let n = 0; n < count; n += 1) {
      const more = call.write(piece);
      seen.poured += piece.length;
      if (!more) await new Promise((resolve) => call.once('drain', resolve));
    }
    call.end(trailer());
  },
  Sum(call, callback) {
    let sum = 0;
    call.on('data', (message) => (sum += message.length));
    call.on('end', () => callback(null, Buffer.from(String(sum)), trailer()));
  },
  Chat(call) {
    call.on('data', (message) => call.write(Buffer.from(`${message} heard`)));
    call.on('end', () => call.end());
  },
};

if (process.argv[1] === new URL(import.meta.url).pathname) {
  const server = new grpc.Server();
  server.addService(methods, handlers);
  server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error, port) => {
    if (error) throw error;
    console.log(port);
  });
  process.stdin.resume();
  process.stdin.on('end', () => process.exit(0));
}
