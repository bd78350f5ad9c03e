// oauth4webapi, step by step: a line of JSON says what to do, a line of JSON says what came of it.

import { createInterface } from 'node:readline';
import { webcrypto } from 'node:crypto';
import * as oauth from 'oauth4webapi';

let said;
let client;
let loopback;

async function proof() {
  switch (said.proof) {
    case 'post': return oauth.ClientSecretPost(said.secret);
    case 'none': return oauth.None();
    case 'key': {
      const curve = { name: 'ECDSA', namedCurve: 'P-256' };
      const { alg, kid, ...jwk } = said.jwk;
      const key = await webcrypto.subtle.importKey('jwk', jwk, curve, false, ['sign']);
      return oauth.PrivateKeyJwt({ key, kid });
    }
    default: return oauth.ClientSecretBasic(said.secret);
  }
}

async function discovered() {
  const issuer = new URL(said.issuer);
  client = { client_id: said.client_id };
  loopback = { [oauth.allowInsecureRequests]: issuer.protocol === 'http:' };
  const answer = await oauth.discoveryRequest(issuer, { algorithm: 'oauth2', ...loopback });
  return oauth.processDiscoveryResponse(issuer, answer);
}

const steps = {
  metadata: (as) => as,

  async begin(as) {
    const verifier = oauth.generateRandomCodeVerifier();
    const state = oauth.generateRandomState();
    const url = new URL(as.authorization_endpoint);
    url.search = new URLSearchParams({
      client_id: said.client_id,
      redirect_uri: said.callback,
      response_type: 'code',
      scope: said.scope,
      state,
    });
    if (said.pkce === false) return { url: url.href, state };
    url.searchParams.set('code_challenge', await oauth.calculatePKCECodeChallenge(verifier));
    url.searchParams.set('code_challenge_method', 'S256');
    return { url: url.href, verifier, state };
  },

  async finish(as) {
    const parameters = oauth.validateAuthResponse(as, client, new URL(said.arrived), said.state);
    const answer = await oauth.authorizationCodeGrantRequest(
      as, client, await proof(), parameters, said.callback,
      said.verifier ?? oauth.nopkce, loopback,
    );
    return oauth.processAuthorizationCodeResponse(as, client, answer);
  },

  async refresh(as) {
    const answer = await oauth.refreshTokenGrantRequest(
      as, client, await proof(), said.refresh_token, loopback,
    );
    return oauth.processRefreshTokenResponse(as, client, answer);
  },

  async own(as) {
    const answer = await oauth.clientCredentialsGrantRequest(
      as, client, await proof(), new URLSearchParams(), loopback,
    );
    return oauth.processClientCredentialsResponse(as, client, answer);
  },

  async introspect(as) {
    const answer = await oauth.introspectionRequest(as, client, await proof(), said.token, loopback);
    return oauth.processIntrospectionResponse(as, client, answer);
  },

  async revoke(as) {
    const answer = await oauth.revocationRequest(as, client, await proof(), said.token, loopback);
    await oauth.processRevocationResponse(answer);
    return {};
  },

  // The library itself turns a 401 into an error that carries the challenge.
  async read() {
    const answer = await oauth.protectedResourceRequest(
      said.token, 'GET', new URL(said.url), undefined, undefined, loopback,
    );
    return { status: answer.status, ...await answer.json() };
  },

  // The other side: a resource server that nobody here wrote, with the keys we publish.
  validate(as) {
    const request = new Request(said.audience, { headers: { authorization: `Bearer ${said.token}` } });
    return oauth.validateJwtAccessToken(as, request, said.audience, loopback);
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
    answer = await steps[said.step](await discovered());
  } catch (error) {
    answer = problem(error);
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
