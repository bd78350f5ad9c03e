"""An MCP client in a browser: what it discovers, registers and asks for is of other origins."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.clients.test_mcp import CALLBACK, FRAMEWORKS, Hosted, hosting
from tests.support.pages import Page, pages

_SCRIPT = """async ([url, callback]) => {
  const headers = { 'mcp-protocol-version': '2025-11-25' };
  const at = new URL(url);
  const resource = await (await fetch(
    at.origin + '/.well-known/oauth-protected-resource' + at.pathname, { headers })).json();
  const issuer = resource.authorization_servers[0];
  const told = [];
  for (const name of ['oauth-authorization-server', 'openid-configuration']) {
    const found = await fetch(issuer + '/.well-known/' + name, { headers });
    told.push(found.status);
    resource.issuer = await found.json();
  }
  const registered = await fetch(resource.issuer.registration_endpoint, {
    method: 'POST',
    headers: { ...headers, 'content-type': 'application/json' },
    body: JSON.stringify({ redirect_uris: [callback], token_endpoint_auth_method: 'none' }),
  });
  told.push(registered.status, (await registered.json()).redirect_uris[0]);
  for (const endpoint of ['token_endpoint', 'revocation_endpoint']) {
    const refused = await fetch(resource.issuer[endpoint], {
      method: 'POST',
      headers: { accept: 'application/json' },
      body: new URLSearchParams(
        { grant_type: 'authorization_code', code: 'x', token: 'x', client_id: 'nobody' }),
    });
    told.push((await refused.json()).error);
  }
  return told;
}"""


@pytest.fixture(scope="module")
def hosted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    """An issuer and MCP servers."""
    with hosting(tmp_path_factory.mktemp("mcp")) as hosted_servers:
        yield hosted_servers


@pytest.fixture(scope="module")
def origin() -> Iterator[str]:
    """The client's page, on an origin of its own."""
    with pages() as host:
        host.at["/"] = Page(b"<!doctype html><title>Inspector</title>", "text/html")
        yield host.url


def test_browser_can_read_metadata_register_and_call_the_token_endpoint(
    hosted: Hosted, origin: str, browser: Browser
) -> None:
    page = browser.new_page()
    page.goto(origin)
    results = page.evaluate(_SCRIPT, [hosted.urls[FRAMEWORKS[0]], CALLBACK])
    assert results == [200, 200, 201, CALLBACK, "invalid_client", "invalid_client"]
