// An agent without a token: an official client finds out where to get one, becomes known there,
// signs somebody in (whose browser this plays, too) and calls tools; then one that its token does not
// reach to. Prints one JSON report; judges nothing.
import { signIn } from './person.mjs';

const { MCP_URL, GENERATION, WAYS, DOCUMENT, CLIENT_ID, WORKSPACE, REFRESHES } = process.env;
const sdk = await import(`./${GENERATION}.mjs`);
const url = new URL(MCP_URL);
// Nobody listens there: whoever plays the browser reads the code off the redirect.
const redirectUrl = 'http://127.0.0.1:4711/callback';
const refreshes = REFRESHES === 'yes';

/** What an SDK asks of an application: its name, a place for its secrets, and somebody who signs in. */
class Agent {
  allows = ['nogoo9:read'];
  asked = [];
  granted = [];
  redirectUrl = redirectUrl;
  clientMetadata = {
    client_name: `Agent of SDK ${GENERATION}`,
    redirect_uris: [redirectUrl],
    grant_types: ['authorization_code', ...(refreshes ? ['refresh_token'] : [])],
    response_types: ['code'],
    token_endpoint_auth_method: 'none',
  };

  constructor(way) {
    if (way === 'document') this.clientMetadataUrl = DOCUMENT;
    if (way === 'beforehand') this.client = { client_id: CLIENT_ID };
  }
  state() {
    this.expected = crypto.randomUUID();
    return this.expected;
  }
  clientInformation() {
    return this.client;
  }
  saveClientInformation(client) {
    this.client = client;
  }
  tokens() {
    return this.saved;
  }
  saveTokens({ refresh_token, ...tokens }) {
    // Some providers hand them out unasked.
    this.saved = refreshes ? { ...tokens, refresh_token } : tokens;
    this.granted.push(tokens.scope);
  }
  saveCodeVerifier(verifier) {
    this.verifier = verifier;
  }
  codeVerifier() {
    return this.verifier;
  }
  saveDiscoveryState(state) {
    this.discovered = state;
  }
  discoveryState() {
    return this.discovered;
  }
  async redirectToAuthorization(at) {
    this.asked.push(Object.fromEntries(at.searchParams));
    this.back = await signIn(at, 'alice', this.allows);
    if (this.back.get('state') !== this.expected) throw new Error('the state is another one');
  }
}

/** How a call fails that should not succeed. */
async function failure(attempt) {
  try {
    await attempt();
    return null;
  } catch (error) {
    return { name: error.constructor.name, message: error.message };
  }
}

async function agent(way) {
  const agent = new Agent(way);
  let session = sdk.signingIn(url, agent);
  const first = await failure(() => session.connect());
  await session.finish(agent.back);
  session = sdk.signingIn(url, agent);
  await session.connect();
  const read = await session.call('get_workspace', { id: WORKSPACE });

  let renewed;
  if (refreshes) {
    // As good as over: it does not verify any more.
    agent.saved = { ...agent.saved, access_token: `${agent.saved.access_token.slice(0, -8)}AAAAAAAA` };
    renewed = await session.call('get_workspace', { id: WORKSPACE });
  }
  // Its token may only look; whoever is asked again lets it do more.
  agent.allows = ['nogoo9:read', 'nogoo9:write', 'nogoo9:admin'];
  const asked = agent.asked.length;
  let beyond = await failure(() => session.call('stop_workspace', { id: WORKSPACE }));
  if (agent.asked.length > asked) await session.finish(agent.back);
  const stopped = await session.call('stop_workspace', { id: WORKSPACE });
  await session.close();
  const client = agent.client.client_id;
  return { client, asked: agent.asked, granted: agent.granted, first, read, renewed, beyond, stopped };
}

const report = {};
for (const way of WAYS.split(',')) report[way] = await agent(way);
console.log(JSON.stringify(report));
