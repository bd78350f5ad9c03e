// An upstream OpenID provider for federation: oidc-provider as its documentation sets it up.
// Each line of JSON changes its settings and is answered with its issuer. Whoever comes is Ada.

import { generateKeyPairSync } from 'node:crypto';
import { createServer } from 'node:http';
import { createInterface } from 'node:readline';
import Provider from 'oidc-provider';

// Standard output is for the test alone.
console.info = () => {};
console.warn = () => {};

const settings = { callback: '', verified: true, kid: 'first' };
const keys = {};
let provider;
let protocol;

const server = createServer((request, response) => {
  if (request.url.startsWith('/interaction/')) interact(request, response);
  else protocol(request, response);
});
server.listen(0, '127.0.0.1');
await new Promise((done) => { server.once('listening', done); });
const issuer = `http://127.0.0.1:${server.address().port}`;

function begin() {
  keys[settings.kid] ??= generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey;
  provider = new Provider(issuer, {
    claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['name'] },
    clients: [{ client_id: 'us', client_secret: 'a-secret-of-ours', redirect_uris: [settings.callback] }],
    cookies: { keys: ['only-for-tests'] },
    features: { devInteractions: { enabled: false } },
    findAccount: (context, id) => ({
      accountId: id,
      claims: () => ({
        sub: id, name: 'Ada Lovelace', email: 'ada@example.com', email_verified: settings.verified,
      }),
    }),
    interactions: { url: (context, interaction) => `/interaction/${interaction.uid}` },
    jwks: { keys: [{ ...keys[settings.kid].export({ format: 'jwk' }), kid: settings.kid, use: 'sig' }] },
  });
  protocol = provider.callback();
}

async function interact(request, response) {
  const { prompt, params, session } = await provider.interactionDetails(request, response);
  let result = { login: { accountId: 'ada-1815' } };
  if (prompt.name !== 'login') {
    const grant = new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
    grant.addOIDCScope(params.scope);
    result = { consent: { grantId: await grant.save() } };
  }
  await provider.interactionFinished(request, response, result, { mergeWithLastSubmission: true });
}

for await (const line of createInterface({ input: process.stdin })) {
  Object.assign(settings, JSON.parse(line));
  begin();
  console.log(JSON.stringify({ issuer }));
}
process.exit();
