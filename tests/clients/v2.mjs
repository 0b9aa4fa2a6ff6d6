// The second generation of the official SDK. It finds out by itself which protocol the server speaks.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
export {
  discoverAuthorizationServerMetadata,
  discoverOAuthProtectedResourceMetadata,
  extractWWWAuthenticateParams,
} from '@modelcontextprotocol/client';

export async function connect(url, headers) {
  const { client, transport } = make(url, { requestInit: { headers } });
  await client.connect(transport);
  return {
    protocol: client.getNegotiatedProtocolVersion(),
    server: client.getServerVersion(),
    instructions: client.getInstructions(),
    listTools: async () => (await client.listTools()).tools,
    call: (name, args, onprogress) => client.callTool({ name, arguments: args }, { onprogress }),
    close: () => client.close(),
  };
}

/** A client that finds its own way to a token; `finish` takes what came back from signing in. */
export function signingIn(url, authProvider) {
  const { client, transport } = make(url, { authProvider });
  return {
    connect: () => client.connect(transport),
    finish: (back) => transport.finishAuth(back),
    call: (name, args) => client.callTool({ name, arguments: args }),
    close: () => client.close(),
  };
}

function make(url, options) {
  return {
    client: new Client(
      { name: 'nogoo9-tests-v2', version: '0.0.0' },
      { versionNegotiation: { mode: 'auto' } },
    ),
    transport: new StreamableHTTPClientTransport(url, options),
  };
}
