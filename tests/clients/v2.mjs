// The second generation of the official SDK. It finds out by itself which protocol the server speaks.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
export {
  discoverAuthorizationServerMetadata,
  discoverOAuthProtectedResourceMetadata,
  extractWWWAuthenticateParams,
} from '@modelcontextprotocol/client';

export async function connect(url, headers) {
  const client = new Client(
    { name: 'nogoo9-tests-v2', version: '0.0.0' },
    { versionNegotiation: { mode: 'auto' } },
  );
  await client.connect(new StreamableHTTPClientTransport(url, { requestInit: { headers } }));
  return {
    protocol: client.getNegotiatedProtocolVersion(),
    server: client.getServerVersion(),
    instructions: client.getInstructions(),
    listTools: async () => (await client.listTools()).tools,
    call: (name, args, onprogress) => client.callTool({ name, arguments: args }, { onprogress }),
    close: () => client.close(),
  };
}
