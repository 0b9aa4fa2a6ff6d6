// The first generation of the official SDK, which speaks the protocol with `initialize`.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
export {
  discoverAuthorizationServerMetadata,
  discoverOAuthProtectedResourceMetadata,
  extractWWWAuthenticateParams,
} from '@modelcontextprotocol/sdk/client/auth.js';

export async function connect(url, headers) {
  const client = new Client({ name: 'nogoo9-tests-v1', version: '0.0.0' });
  const transport = new StreamableHTTPClientTransport(url, { requestInit: { headers } });
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
