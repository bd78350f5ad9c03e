"""Redirect URIs: only the registered one is ever followed, at every step."""

from pathlib import Path

import pytest

from tests.authorization.endpoints.visitor.looks import is_page
from tests.support.harness import NOON, Harness
from tests.support.plain_browser import usual
from tests.support.visitors import NATIVE, PKCE, WEB, run
from valetkey.kernel.replace import replace
from valetkey.kernel.scope import Scope

RU = {
    "RU-03": ["https://app.example@evil.test/cb", "https://app.example:x@evil.test/cb"],
    "RU-05": ["https://a@b@evil.test/cb", "https://app.example@@evil.test/cb"],
    "RU-07": [
        "https://evil.test\\@app.example/cb",
        "https://app.example\\.evil.test/cb",
        "https:\\\\evil.test\\cb",
    ],
    "RU-09": [f"https://app.example{path}" for path in ("/cb/x", "/cbx", "/c", "/cb/", "")],
    "RU-11": ["https://APP.example/cb", "HTTPS://app.example/cb"],
    "RU-13": ["https://app.example/cb?a=1", "https://app.example/cb?", "https://app.example/cb&"],
    "RU-15": ["https://app.example/cb;evil=1", "https://app.example/cb;jsessionid=1"],
    "RU-17": ["http://app.example/cb"],
    "RU-19": ["//app.example/cb", "/cb", "cb", ""],
    "RU-25": [
        "http://127.0.0.1.evil.test/cb",
        "http://localhost.evil.test/cb",
        "http://127.1/cb",
        "http://2130706433/cb",
        "http://0x7f.1/",
        "http://0177.0.0.1/",
        "http://[::ffff:127.0.0.1]/cb",
        "http://0.0.0.0/cb",
        "http://127.0.0.2/cb",
    ],
    "RU-27": [
        f"https://app.example:{p}/cb" for p in ("0", "65536", "9" * 11, "abc", "-1", "４４３")
    ],
    "RU-29": [
        "https://аpp.example/cb",
        "https://evil。example/cb",
        "https://xn--pp-6ja.example/cb",
    ],
    "RU-33": ["https://app.example/cb?" + "a" * 7_000],
    "controls": ["https://app.example/cb\0", "https://app.example/cb\r\nX: y", "\thttps://app"],
    "fragment": ["https://app.example/cb#", "https://app.example/cb#x"],
}


@pytest.mark.parametrize(
    "uri", [uri for uris in RU.values() for uri in uris], ids=lambda uri: repr(uri)[:60]
)
@pytest.mark.parametrize("client_id", ["web1", "nat1"])
def test_ru_a_redirect_uri_that_is_not_registered_is_never_followed(
    tmp_path: Path, uri: str, client_id: str
) -> None:
    async def story(it: Harness) -> None:
        said = {**usual(client_id=client_id), **PKCE, "redirect_uri": uri}
        is_page(await it.browser().get("/oauth/authorize", **said), 400)
        is_page(await it.browser().post("/oauth/authorize", said), 400)
        assert await it.events() == []

    run(tmp_path, story)


@pytest.mark.parametrize("port", ["", ":1", ":1024", ":65535"])
def test_ru_23_a_native_app_may_use_any_port_of_the_loopback(tmp_path: Path, port: str) -> None:
    async def story(it: Harness) -> None:
        uri = f"http://127.0.0.1{port}/cb"
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
        other = {"client_id": "nat1", "redirect_uri": f"http://127.0.0.1{port}/other"}
        is_page(await alice.get("/oauth/authorize", **usual(**other)), 400)
        await it.register(replace(WEB, id="web2", redirect_uris=NATIVE.redirect_uris))
        if port:
            said = usual(client_id="web2", redirect_uri=uri)
            is_page(await alice.get("/oauth/authorize", **said), 400)

    run(tmp_path, story)


def test_ru_33_a_huge_request_is_refused(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        answer = await it.browser().ask(redirect_uri="https://app.example/" + "a" * 1_000_000)
        is_page(answer, 414)

    run(tmp_path, story)


@pytest.mark.parametrize(
    "changed",
    [
        {"redirect_uris": ("https://other.example/cb",)},
        {"disabled_at": NOON},
    ],
    ids=["redirect URI removed", "client disabled"],
)
def test_ru_37_removed_redirect_uri_or_disabled_client_gets_no_code(
    tmp_path: Path, changed: dict[str, object]
) -> None:
    async def story(it: Harness) -> None:
        alice = it.browser()
        page = await alice.sign_in(await alice.ask())
        await it.change(replace(WEB, **changed))  # type: ignore[arg-type]
        is_page(await alice.submit(page, "allow", decision="allow"), 400)
        assert "code.issued" not in await it.events()

    run(tmp_path, story)


def test_ru_37_removed_after_the_decision_before_the_answer(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = it.browser()
        page = await alice.sign_in(await alice.ask())
        decided = await alice.submit(page, "allow", decision="allow")
        await it.change(replace(WEB, redirect_uris=()))
        is_page(await alice.get(decided.location), 400)
        await it.change(replace(WEB, scope=Scope.of("notes:read")))
        answer = await alice.get(decided.location)
        assert answer.told["error"] == "invalid_scope"
        assert "code.issued" not in await it.events()

    run(tmp_path, story)
