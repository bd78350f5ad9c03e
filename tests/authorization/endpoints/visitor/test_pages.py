"""Home, error explanations, assets, and how the pages say no."""

import re
from pathlib import Path

import pytest

from tests.support.harness import Harness
from tests.support.visitors import ISSUER, run
from valetkey.authorization.layout.assets import CurrentBrand
from valetkey.authorization.layout.brand import Brand
from valetkey.authorization.site.errors.refuse import RefuseWithPage
from valetkey.authorization.storage.usage import ClientDecisionQueue
from valetkey.kernel.refusal import ErrorCode, Refusal
from valetkey.kernel.runtime import SYSTEM
from valetkey.web.exchange import Request


def test_home_shows_the_server_name_and_a_sign_in_link(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        home = await it.browser().get("/")
        assert home.status == 200
        assert "Valetkey" in home.body
        assert 'href="/oauth/sign-in"' in home.body
        head = await it.browser().send("HEAD", "/")
        assert (head.status, head.body) == (200, "")

    run(tmp_path, story)


def test_every_error_code_has_its_page(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = it.browser()
        index = await browser.get("/errors/")
        for code in ErrorCode:
            assert f'href="/errors/{code.value}"' in index.body
            page = await browser.get(f"/errors/{code.value}")
            assert page.status == 200
            assert code.value in page.body
        for path in ("/errors/unknown", "/errors/%00", "/errors/Invalid_request"):
            assert (await browser.get(path)).status == 404

    run(tmp_path, story)


def test_assets_of_the_pages_are_served_as_immutable(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        home = await it.browser().get("/")
        paths = re.findall(r'(?:href|src)="(/assets/[^"]+)"', home.body)
        assert paths
        for path in set(paths):
            asset = await it.browser().get(path)
            assert asset.status == 200
            assert "immutable" in asset.header("cache-control")
            assert asset.header("content-type").split(";")[0] in {"text/css", "image/svg+xml"}

    run(tmp_path, story)


@pytest.mark.parametrize("code", list(ErrorCode))
def test_every_refusal_becomes_a_page_with_a_reference(code: ErrorCode) -> None:
    decisions = ClientDecisionQueue(SYSTEM.random)
    refuse = RefuseWithPage(decisions, CurrentBrand(Brand()), ISSUER)
    refusal = Refusal(code, "it <b>was</b> wrong", "a.check", "expected", "received")
    response = refuse(Request("GET", "/oauth/authorize"), refusal)
    assert response.status == code.status
    body = response.body.decode()
    assert "It &lt;b&gt;was&lt;/b&gt; wrong." in body
    assert "expected" not in body
    assert "received" not in body
    (decision,) = decisions.drain()
    assert decision.reference in body
    assert decision.endpoint == "/oauth/authorize"


def test_unknown_request_path_is_not_recorded() -> None:
    decisions = ClientDecisionQueue(SYSTEM.random)
    refuse = RefuseWithPage(decisions, CurrentBrand(Brand()), ISSUER)
    for path in ("/vk_cs_secret", "/a/b/c/d", "/A", "/a?b"):
        refuse(Request("GET", path), Refusal(ErrorCode.NOT_FOUND, "nothing here"))
    assert {decision.endpoint for decision in decisions.drain()} == {""}


def test_notice_page_explains_the_deprecated_query_string(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        page = await it.browser().get("/notices/query-string")
        assert page.status == 200
        assert "Send the same parameters in the request body" in page.body
        assert "https://auth.example/oauth/token" in page.body

    run(tmp_path, story)
