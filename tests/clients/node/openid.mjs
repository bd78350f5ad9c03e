// openid-client as an OpenID relying party, step by step: a line of JSON says what to do, a line of
// JSON says what came of it. What it discovered of a provider, and its keys, it remembers.

import { createServer } from 'node:http';
import { createInterface } from 'node:readline';
import * as jose from 'jose';
import * as client from 'openid-client';

const keys = new Map();
const known = new Map();
const heard = [];
let said;

function proof() {
  const { client_secret: secret, token_endpoint_auth_method: method } = said.client;
  switch (method) {
    case 'client_secret_basic': return client.ClientSecretBasic(secret);
    case 'client_secret_post': return client.ClientSecretPost(secret);
    case 'client_secret_jwt': return client.ClientSecretJwt(secret);
    case 'private_key_jwt': return client.PrivateKeyJwt(keys.get(said.signs));
    case 'none': return client.None();
    default: throw new Error(`no such method: ${method}`);
  }
}

const insecure = { execute: [client.allowInsecureRequests] };

async function configuration() {
  const { client_id: id, response_types: types = [] } = said.client;
  if (known.has(id)) return known.get(id);
  const config = await client.discovery(new URL(said.issuer), id, said.client, proof(), insecure);
  // Also where TLS would do for the specification, the signature is checked; HMAC it knows alone.
  if (said.client.id_token_signed_response_alg !== 'HS256') client.enableNonRepudiationChecks(config);
  if (types[0]?.startsWith('code id_token')) client.useCodeIdTokenResponseType(config);
  if (types[0] === 'id_token') client.useIdTokenResponseType(config);
  if (said.decrypts) client.enableDecryptingResponses(config, said.encs, keys.get(said.decrypts));
  known.set(id, config);
  return config;
}

// What the browser brings: an address, or a form that a page posted.
function arrived() {
  if (!said.posted) return new URL(said.arrived);
  const headers = { 'content-type': 'application/x-www-form-urlencoded' };
  return new Request(said.callback, { method: 'POST', headers, body: said.posted });
}

function told(tokens) {
  return { ...tokens, claims: tokens.claims() ?? null };
}

const steps = {
  async key() {
    const pair = await jose.generateKeyPair(said.alg, { extractable: true });
    keys.set(said.kid, { key: pair.privateKey, kid: said.kid, alg: said.alg });
    const jwk = await jose.exportJWK(pair.publicKey);
    return { ...jwk, kid: said.kid, alg: said.alg, use: said.use };
  },

  async register() {
    const config = await client.dynamicClientRegistration(
      new URL(said.issuer), said.metadata, undefined, insecure,
    );
    return config.clientMetadata();
  },

  metadata: async () => (await configuration()).serverMetadata(),

  async begin() {
    const config = await configuration();
    const state = client.randomState();
    const nonce = client.randomNonce();
    const parameters = { redirect_uri: said.callback, scope: said.scope, state, nonce, ...said.more };
    let verifier;
    if ((said.client.response_types?.[0] ?? 'code').includes('code')) {
      verifier = client.randomPKCECodeVerifier();
      parameters.code_challenge = await client.calculatePKCECodeChallenge(verifier);
      parameters.code_challenge_method = 'S256';
    }
    return { url: client.buildAuthorizationUrl(config, parameters).href, state, nonce, verifier };
  },

  finish: async () => told(await client.authorizationCodeGrant(await configuration(), arrived(), {
    pkceCodeVerifier: said.verifier,
    expectedState: said.state,
    expectedNonce: said.nonce,
    idTokenExpected: true,
    maxAge: said.maxAge,
  })),

  implicit: async () => client.implicitAuthentication(
    await configuration(), arrived(), said.nonce, { expectedState: said.state },
  ),

  refresh: async () => told(await client.refreshTokenGrant(await configuration(), said.token)),

  userinfo: async () => client.fetchUserInfo(await configuration(), said.token, said.subject),

  out: async () => {
    const parameters = { post_logout_redirect_uri: said.back, state: said.state };
    if (said.hint) parameters.id_token_hint = said.hint;
    return { url: client.buildEndSessionUrl(await configuration(), parameters).href };
  },

  // Where logout tokens may come, before anybody knows who will be told there.
  async listen() {
    const server = createServer(async (request, response) => {
      let body = '';
      for await (const piece of request) body += piece;
      heard.push(new URLSearchParams(body).get('logout_token'));
      response.writeHead(200, { 'cache-control': 'no-store' }).end();
    });
    await new Promise((done) => { server.listen(0, '127.0.0.1', done); });
    server.unref();
    return { url: `http://127.0.0.1:${server.address().port}/out` };
  },

  async heard() {
    const metadata = (await configuration()).serverMetadata();
    const set = jose.createRemoteJWKSet(new URL(metadata.jwks_uri));
    const checks = { issuer: metadata.issuer, audience: said.client.client_id, typ: 'logout+jwt' };
    const tokens = heard.splice(0);
    const verified = await Promise.all(tokens.map((token) => jose.jwtVerify(token, set, checks)));
    return { tokens: verified.map(({ payload }) => payload) };
  },
};

function problem(error) {
  const { name, code, error: oauth, error_description, status } = error;
  const message = error.cause?.message ?? error.message;
  return { problem: { name, code, error: oauth, error_description, status, message } };
}

for await (const line of createInterface({ input: process.stdin })) {
  said = JSON.parse(line);
  let answer;
  try {
    answer = await steps[said.step]();
  } catch (error) {
    answer = problem(error);
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
process.exit();
