// openid-client, step by step: a line of JSON says what to do, a line of JSON says what came of it.

import { createInterface } from 'node:readline';
import { webcrypto } from 'node:crypto';
import * as client from 'openid-client';

let said;

async function proof() {
  switch (said.proof) {
    case 'basic': return client.ClientSecretBasic(said.secret);
    case 'post': return client.ClientSecretPost(said.secret);
    case 'none': return client.None();
    case 'key': {
      const curve = { name: 'ECDSA', namedCurve: 'P-256' };
      const { alg, kid, ...jwk } = said.jwk;
      const key = await webcrypto.subtle.importKey('jwk', jwk, curve, false, ['sign']);
      return client.PrivateKeyJwt({ key, kid });
    }
    default: return undefined; // the library's own choice
  }
}

async function configuration() {
  const metadata = said.secret === undefined ? {} : { client_secret: said.secret };
  return client.discovery(new URL(said.issuer), said.client_id, metadata, await proof(), {
    algorithm: 'oauth2',
    execute: said.issuer.startsWith('http://') ? [client.allowInsecureRequests] : [],
  });
}

function told(tokens) {
  return { ...tokens, remaining: tokens.expiresIn() };
}

const steps = {
  metadata: (config) => config.serverMetadata(),

  async begin(config) {
    const verifier = client.randomPKCECodeVerifier();
    const state = client.randomState();
    const parameters = { redirect_uri: said.callback, scope: said.scope, state };
    if (said.pkce === false) {
      return { url: client.buildAuthorizationUrl(config, parameters).href, state };
    }
    const url = client.buildAuthorizationUrl(config, {
      ...parameters,
      code_challenge: await client.calculatePKCECodeChallenge(verifier),
      code_challenge_method: 'S256',
    });
    return { url: url.href, verifier, state };
  },

  finish: async (config) => told(await client.authorizationCodeGrant(
    config,
    new URL(said.arrived),
    { pkceCodeVerifier: said.verifier, expectedState: said.state },
  )),

  refresh: async (config) => told(await client.refreshTokenGrant(config, said.refresh_token)),

  device: (config) => client.initiateDeviceAuthorization(config, { scope: said.scope }),

  // The user has decided by now, so one short wait is enough.
  poll: async (config) => told(await client.pollDeviceAuthorizationGrant(
    config,
    { ...said.device, interval: 1 },
  )),

  own: async (config) => told(await client.clientCredentialsGrant(config)),

  introspect: (config) => client.tokenIntrospection(config, said.token),

  async revoke(config) {
    await client.tokenRevocation(config, said.token);
    return {};
  },

  // The library itself turns a 401 into an error that carries the challenge.
  async read(config) {
    const answer = await client.fetchProtectedResource(config, said.token, new URL(said.url), 'GET');
    return { status: answer.status, ...await answer.json() };
  },
};

function problem(error) {
  const { name, code, error: oauth, error_description, status } = error;
  const message = error.cause?.message ?? error.message;
  const challenge = Array.isArray(error.cause)
    ? error.cause.map(({ scheme, parameters }) => ({ scheme, ...parameters }))
    : undefined;
  return { problem: { name, code, error: oauth, error_description, status, message, challenge } };
}

for await (const line of createInterface({ input: process.stdin })) {
  said = JSON.parse(line);
  let answer;
  try {
    answer = await steps[said.step](await configuration());
  } catch (error) {
    answer = problem(error);
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
