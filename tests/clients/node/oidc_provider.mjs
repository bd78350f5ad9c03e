// Another issuer: JWTs (RFC 9068) and opaque tokens with introspection (RFC 7662), in memory.
// Whoever comes to sign in is Ada, and allows everything.

import { generateKeyPairSync } from 'node:crypto';
import { createServer } from 'node:http';
import Provider from 'oidc-provider';

const ACCOUNT = '1001';
const OPAQUE = 'https://opaque.example';
const SCOPES = 'notes:read notes:write';

function key(kind, options, extra) {
  return { ...generateKeyPairSync(kind, options).privateKey.export({ format: 'jwk' }), ...extra };
}

const keys = [
  key('rsa', { modulusLength: 2048 }, { kid: 'rsa', use: 'sig' }),
  key('ec', { namedCurve: 'P-256' }, { kid: 'p256', use: 'sig' }),
  key('ec', { namedCurve: 'P-521' }, { kid: 'p521', use: 'sig' }),
  key('ed25519', {}, { kid: 'ed', use: 'sig' }),
];

const server = createServer((request, response) => answer(request, response));
server.listen(0, '127.0.0.1');
await new Promise((done) => { server.once('listening', done); });
const issuer = `http://127.0.0.1:${server.address().port}`;

const provider = new Provider(issuer, {
  clients: [
    {
      client_id: 'robot', client_secret: 'robot-secret', redirect_uris: [], response_types: [],
      grant_types: ['client_credentials'],
    },
    {
      client_id: 'api', client_secret: 'api-secret', redirect_uris: [], response_types: [],
      grant_types: ['client_credentials'],
    },
    {
      client_id: 'tool', application_type: 'native', token_endpoint_auth_method: 'none',
      redirect_uris: ['http://127.0.0.1/callback'],
      grant_types: ['authorization_code', 'refresh_token'], response_types: ['code'],
    },
  ],
  cookies: { keys: ['only-for-tests'] },
  features: {
    clientCredentials: { enabled: true },
    devInteractions: { enabled: false },
    introspection: { enabled: true },
    revocation: { enabled: true },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo: (context, resource) => ({
        scope: SCOPES,
        audience: resource,
        accessTokenTTL: 600,
        accessTokenFormat: resource === OPAQUE ? 'opaque' : 'jwt',
        jwt: { sign: { alg: new URL(resource).searchParams.get('alg') ?? 'RS256' } },
      }),
    },
  },
  enabledJWA: { idTokenSigningAlgValues: ['RS256', 'ES256'] },
  findAccount: (context, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  interactions: { url: (context, interaction) => `/interaction/${interaction.uid}` },
  issueRefreshToken: () => true,
  jwks: { keys },
  rotateRefreshToken: true,
  scopes: ['openid', ...SCOPES.split(' ')],
  ttl: { Grant: 3600, Interaction: 600, RefreshToken: 3600, Session: 3600 },
});
const protocol = provider.callback();

async function answer(request, response) {
  if (!request.url.startsWith('/interaction/')) {
    protocol(request, response);
    return;
  }
  const { prompt, params, session } = await provider.interactionDetails(request, response);
  const result = prompt.name === 'login'
    ? { login: { accountId: ACCOUNT } }
    : { consent: { grantId: await allow(prompt.details, params, session) } };
  await provider.interactionFinished(request, response, result, { mergeWithLastSubmission: true });
}

async function allow(asked, params, session) {
  const grant = new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
  if (asked.missingOIDCScope) grant.addOIDCScope(asked.missingOIDCScope.join(' '));
  for (const [resource, scopes] of Object.entries(asked.missingResourceScopes ?? {})) {
    grant.addResourceScope(resource, scopes.join(' '));
  }
  return grant.save();
}

console.log(JSON.stringify({ issuer }));
process.stdin.resume();
process.stdin.on('end', () => process.exit());
