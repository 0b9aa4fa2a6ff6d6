// oidc-provider, with nogoo9 as its client and three people: a provider of another make to sign in at.
// Who is signed in here stays so until they sign out here, which the other two do not have.
// Usage: oidc-provider.mjs IP PORT REDIRECT_URL SIGNED_OUT_URL
import { generateKeyPairSync, randomBytes, randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { Provider } from 'oidc-provider';

const [ip, port, redirectUrl, signedOutUrl] = process.argv.slice(2);
const ROLES = { alice: ['user'], bob: ['user'], admin: ['admin'] };

// New ones at each start: whoever knew the old ones must find these.
const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
const key = { ...privateKey.export({ format: 'jwk' }), kid: randomUUID(), use: 'sig', alg: 'RS256' };

const provider = new Provider(`http://${ip}:${port}`, {
  clients: [
    {
      client_id: 'nogoo9',
      token_endpoint_auth_method: 'none',
      grant_types: ['authorization_code', 'refresh_token'],
      redirect_uris: [redirectUrl],
      post_logout_redirect_uris: [signedOutUrl],
    },
  ],
  jwks: { keys: [key] },
  cookies: { keys: [randomBytes(32).toString('hex')] },
  pkce: { required: () => true },
  scopes: ['openid', 'profile', 'email', 'offline_access'],
  // What belongs to `openid` is in the ID token; all else would be at the userinfo endpoint.
  claims: { openid: ['sub', 'roles'], profile: ['name'], email: ['email'] },
  findAccount: (_, id) =>
    Object.hasOwn(ROLES, id)
      ? { accountId: id, claims: () => ({ sub: id, roles: ROLES[id], name: id, email: `${id}@nogoo9.test` }) }
      : undefined,
  // Else it wants `prompt=consent` with `offline_access` at every sign-in.
  issueRefreshToken: (_, client) => client.grantTypeAllowed('refresh_token'),
  // The operator has agreed for everybody, as with applications of one's own.
  async loadExistingGrant({ oidc }) {
    const { clientId } = oidc.client;
    const known = oidc.session.grantIdFor(clientId);
    if (known) return oidc.provider.Grant.find(known);
    const grant = new oidc.provider.Grant({ clientId, accountId: oidc.session.accountId });
    grant.addOIDCScope('openid profile email offline_access');
    await grant.save();
    return grant;
  },
  ttl: {
    AccessToken: 600, AuthorizationCode: 60, Grant: 86400, IdToken: 600, Interaction: 3600, RefreshToken: 86400,
    Session: 86400,
  },
  features: { devInteractions: { enabled: true }, revocation: { enabled: true } },
});
provider.on('refresh_token.destroyed', () => console.error('a refresh token is destroyed'));
provider.on('server_error', (_, error) => console.error(error));
createServer(provider.callback()).listen(Number(port), ip, () => console.error(`serves at ${provider.issuer}`));
