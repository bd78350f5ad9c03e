"""Redirect URIs of native apps; tests/attacks/people/redirects tries what is not registered."""

from pathlib import Path

from tests.authorization.endpoints.visitor.looks import is_page
from tests.support.harness import Harness
from tests.support.plain_browser import usual
from tests.support.visitors import NATIVE, PKCE, WEB, run
from valetkey.kernel.replace import replace


def test_native_app_on_another_loopback_port_requires_interaction_each_time(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        uri = "http://127.0.0.1:1024/cb"
        alice = it.browser()
        page = await alice.sign_in(await alice.ask(client_id="nat1", redirect_uri=uri, **PKCE))
        assert f"form-action 'self' {uri.removesuffix('/cb')}" in page.header(
            "content-security-policy"
        )
        answer = await alice.allow(page)
        assert answer.location.startswith(f"{uri}?code=")
        # Whoever takes the port next is not let in without a person (RFC 8252 section 8.6).
        again = await alice.ask(client_id="nat1", redirect_uri=uri, prompt="none", **PKCE)
        assert again.told["error"] == "interaction_required"
        other = {"client_id": "nat1", "redirect_uri": "http://127.0.0.1:1024/other"}
        is_page(await alice.get("/oauth/authorize", **usual(**other)), 400)
        await it.register(replace(WEB, id="web2", redirect_uris=NATIVE.redirect_uris))
        parameters = usual(client_id="web2", redirect_uri=uri)
        is_page(await alice.get("/oauth/authorize", **parameters), 400)

    run(tmp_path, story)
