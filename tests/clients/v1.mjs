// The first generation of the official SDK, which speaks the protocol with `initialize`.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
export {
  discoverAuthorizationServerMetadata,
  discoverOAuthProtectedResourceMetadata,
  extractWWWAuthenticateParams,
} from '@modelcontextprotocol/sdk/client/auth.js';

export async function connect(url, headers) {
  const { client, transport } = make(url, { requestInit: { headers } });
  await client.connect(transport);
  return {
    protocol: transport.protocolVersion,
    server: client.getServerVersion(),
    instructions: client.getInstructions(),
    listTools: async () => (await client.listTools()).tools,
    call: (name, args, onprogress) =>
      client.callTool({ name, arguments: args }, undefined, { onprogress }),
    close: () => client.close(),
  };
}

/** A client that finds its own way to a token; `finish` takes what came back from signing in. */
export function signingIn(url, authProvider) {
  const { client, transport } = make(url, { authProvider });
  return {
    connect: () => client.connect(transport),
    finish: (back) => transport.finishAuth(back.get('code')),
    call: (name, args) => client.callTool({ name, arguments: args }),
    close: () => client.close(),
  };
}

function make(url, options) {
  return {
    client: new Client({ name: 'nogoo9-tests-v1', version: '0.0.0' }),
    transport: new StreamableHTTPClientTransport(url, options),
  };
}
