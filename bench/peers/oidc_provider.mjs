// The peer written for Node: npm oidc-provider, with its own memory adapter or with Redis.
//
// node oidc_provider.mjs PORT [REDIS_URL]
// Set up as favourably as its documentation allows: no development pages, ES256 keys, no debug
// output, one process. Whoever signs in is Ada, and allows what is asked.

import { generateKeyPairSync } from 'node:crypto';
import { createServer } from 'node:http';
import { Provider } from 'oidc-provider';

const [port, redisUrl] = process.argv.slice(2);
const issuer = `http://127.0.0.1:${port}`;
const API = 'https://api.example';
const SECRET = 'a-secret-of-the-bench-with-more-than-32-letters';
const CALLBACK = 'https://app.example/cb';

const ec = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ format: 'jwk' });
const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ format: 'jwk' });

// Its own memory adapter forgets all but a thousand entries; this one, as simple, keeps them.
function memoryAdapter() {
  const kept = new Map();
  const grants = new Map();
  return class {
    constructor(name) { this.name = name; }

    key(id) { return `${this.name}:${id}`; }

    async upsert(id, payload) {
      const key = this.key(id);
      kept.set(key, payload);
      if (payload.uid) kept.set(`uid:${payload.uid}`, id);
      if (payload.grantId && this.name !== 'Session') {
        const of = grants.get(payload.grantId);
        if (of) of.push(key);
        else grants.set(payload.grantId, [key]);
      }
    }

    async find(id) { return kept.get(this.key(id)); }

    async findByUid(uid) { return this.find(kept.get(`uid:${uid}`)); }

    async findByUserCode() { return undefined; }

    async destroy(id) { kept.delete(this.key(id)); }

    async revokeByGrantId(grantId) {
      for (const key of grants.get(grantId) ?? []) kept.delete(key);
      grants.delete(grantId);
    }

    async consume(id) { kept.get(this.key(id)).consumed = Math.floor(Date.now() / 1000); }
  };
}

async function redisAdapter(url) {
  const { default: Redis } = await import('ioredis');
  const client = new Redis(url);
  const consumable = new Set(['AuthorizationCode', 'RefreshToken', 'DeviceCode', 'BackchannelAuthenticationRequest']);
  const grantable = new Set(['AccessToken', 'AuthorizationCode', 'RefreshToken', 'DeviceCode']);
  return class {
    constructor(name) { this.name = name; }

    key(id) { return `${this.name}:${id}`; }

    async upsert(id, payload, expiresIn) {
      const key = this.key(id);
      const multi = client.multi();
      if (consumable.has(this.name)) multi.hset(key, { payload: JSON.stringify(payload) });
      else multi.set(key, JSON.stringify(payload));
      if (expiresIn) multi.expire(key, expiresIn);
      if (grantable.has(this.name) && payload.grantId) {
        multi.rpush(`grant:${payload.grantId}`, key);
        multi.expire(`grant:${payload.grantId}`, 86400);
      }
      if (payload.uid) multi.set(`uid:${payload.uid}`, id, 'EX', expiresIn);
      await multi.exec();
    }

    async find(id) {
      const key = this.key(id);
      if (!consumable.has(this.name)) {
        const text = await client.get(key);
        return text ? JSON.parse(text) : undefined;
      }
      const { payload, ...rest } = await client.hgetall(key);
      return payload ? { ...rest, ...JSON.parse(payload) } : undefined;
    }

    async findByUid(uid) { return this.find(await client.get(`uid:${uid}`)); }

    async findByUserCode() { return undefined; }

    async destroy(id) { await client.del(this.key(id)); }

    async revokeByGrantId(grantId) {
      const keys = await client.lrange(`grant:${grantId}`, 0, -1);
      await client.del(`grant:${grantId}`, ...keys);
    }

    async consume(id) { await client.hset(this.key(id), 'consumed', Math.floor(Date.now() / 1000)); }
  };
}

const machine = (id) => ({
  client_id: id,
  client_secret: SECRET,
  grant_types: ['client_credentials'],
  redirect_uris: [],
  response_types: [],
  token_endpoint_auth_method: 'client_secret_post',
});

const app = (id, algorithm) => ({
  client_id: id,
  token_endpoint_auth_method: 'none',
  redirect_uris: [CALLBACK],
  grant_types: ['authorization_code', 'refresh_token'],
  response_types: ['code'],
  id_token_signed_response_alg: algorithm,
});

const provider = new Provider(issuer, {
  adapter: redisUrl ? await redisAdapter(redisUrl) : memoryAdapter(),
  claims: { openid: ['sub'], profile: ['name'], email: ['email'] },
  clients: [
    machine('service'),
    machine('reference'),
    app('phone', 'ES256'),
    app('phone-rs256', 'RS256'),
  ],
  clientDefaults: { id_token_signed_response_alg: 'ES256' },
  cookies: { keys: ['only-for-the-bench'] },
  enabledJWA: { idTokenSigningAlgValues: ['ES256', 'RS256'] },
  features: {
    clientCredentials: { enabled: true },
    devInteractions: { enabled: false },
    introspection: { enabled: true, allowedPolicy: () => true },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo: (context, resource) => ({
        audience: resource,
        scope: 'notes:read',
        accessTokenTTL: 3600,
        accessTokenFormat: resource === API ? 'jwt' : 'opaque',
        jwt: { sign: { alg: 'ES256' } },
      }),
    },
  },
  findAccount: (context, id) => ({
    accountId: id,
    claims: () => ({ sub: id, name: 'Ada', email: 'ada@example.com' }),
  }),
  interactions: { url: (context, interaction) => `/interaction/${interaction.uid}` },
  issueRefreshToken: (context, client) => client.grantTypeAllowed('refresh_token'),
  jwks: {
    keys: [
      { ...ec, kid: 'bench', use: 'sig', alg: 'ES256' },
      { ...rsa, kid: 'bench-rsa', use: 'sig', alg: 'RS256' },
    ],
  },
  pkce: { required: () => true },
  rotateRefreshToken: true,
  scopes: ['openid', 'profile', 'email', 'notes:read'],
  ttl: { AccessToken: 3600, AuthorizationCode: 60, ClientCredentials: 3600, Grant: 86400, IdToken: 3600, Interaction: 600, RefreshToken: 86400, Session: 86400 },
});
const protocol = provider.callback();

async function interact(request, response) {
  const { prompt, params, session, grantId } = await provider.interactionDetails(request, response);
  if (prompt.name === 'login') {
    await provider.interactionFinished(request, response, { login: { accountId: '1001' } });
    return;
  }
  const grant = grantId
    ? await provider.Grant.find(grantId)
    : new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
  if (prompt.details.missingOIDCScope) grant.addOIDCScope(prompt.details.missingOIDCScope.join(' '));
  for (const [resource, scopes] of Object.entries(prompt.details.missingResourceScopes ?? {})) {
    grant.addResourceScope(resource, scopes.join(' '));
  }
  const consent = { grantId: await grant.save() };
  await provider.interactionFinished(request, response, { consent }, { mergeWithLastSubmission: true });
}

createServer((request, response) => {
  if (request.url.startsWith('/interaction/')) interact(request, response);
  else protocol(request, response);
}).listen(Number(port), '127.0.0.1', () => console.log('ready'));
