// @modelcontextprotocol/sdk, step by step: a line of JSON says what to do, a line what came of it.

import { createInterface } from 'node:readline';
import { UnauthorizedError } from '@modelcontextprotocol/sdk/client/auth.js';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

class Provider {
  constructor(callback, id) {
    this.redirectUrl = callback;
    this.clientMetadataUrl = id;
    this.clientMetadata = {
      client_name: 'Editor',
      redirect_uris: [callback],
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      token_endpoint_auth_method: 'none',
    };
  }
  clientInformation() { return this.client; }
  saveClientInformation(client) { this.client = client; }
  tokens() { return this.saved; }
  saveTokens(tokens) { this.saved = tokens; }
  redirectToAuthorization(url) { this.url = url.href; }
  saveCodeVerifier(verifier) { this.verifier = verifier; }
  codeVerifier() { return this.verifier; }
}

let provider;
let transport;

async function connected(url) {
  transport = new StreamableHTTPClientTransport(new URL(url), { authProvider: provider });
  const client = new Client({ name: 'editor', version: '1' });
  await client.connect(transport);
  return client;
}

const steps = {
  async begin({ url, callback, id }) {
    provider = new Provider(callback, id);
    try {
      await connected(url);
    } catch (error) {
      if (!(error instanceof UnauthorizedError)) throw error;
      return { url: provider.url };
    }
    throw new Error('the server admitted a client without a token');
  },

  async finish({ url, code, tool }) {
    await transport.finishAuth(code);
    const client = await connected(url);
    const { content } = await client.callTool({ name: tool, arguments: {} });
    await client.close();
    return { text: content[0].text, scope: provider.saved.scope };
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const said = JSON.parse(line);
  let answer;
  try {
    answer = await steps[said.step](said);
  } catch (error) {
    answer = { problem: String(error) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
