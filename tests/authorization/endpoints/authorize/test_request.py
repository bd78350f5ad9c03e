"""Refused authorization requests: the error for the client and its record (more in attacks)."""

from pathlib import Path

import pytest

from tests.support.harness import Harness
from tests.support.plain_browser import usual
from tests.support.visitors import ISSUER, WEB, run
from valetkey.kernel.replace import replace


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_az_refusal_of_a_proven_request_is_sent_to_the_client_and_recorded(
    tmp_path: Path, method: str
) -> None:
    async def story(it: Harness) -> None:
        browser, parameters = it.browser(), usual(scope="admin")
        if method == "GET":
            answer = await browser.get("/oauth/authorize", **parameters)
        else:
            answer = await browser.follow(await browser.post("/oauth/authorize", parameters))
        assert answer.status == 303
        assert answer.location.startswith("https://app.example/cb?error=")
        response = answer.told
        assert response["error"] == "invalid_scope"
        explained, _, reference = response["error_uri"].partition("?reference=")
        assert explained == f"{ISSUER}/errors/invalid_scope"
        assert set(response) == {"error", "error_description", "error_uri", "state", "iss"}
        assert (response["state"], response["iss"]) == ("xyz", ISSUER)
        assert response["error_description"]
        decision = it.server.decisions.drain()[-1]
        assert decision.reference == reference
        assert (decision.client_id, decision.code) == ("web1", "invalid_scope")
        assert await it.events() == []

    run(tmp_path, story)


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_request_too_long_for_the_interaction_is_refused(tmp_path: Path, method: str) -> None:
    async def story(it: Harness) -> None:
        uri = "https://app.example/" + "a" * 1_970
        await it.register(replace(WEB, id="web2", redirect_uris=(uri,)))
        parameters = usual(
            client_id="web2",
            redirect_uri=uri,
            state="s" * 2_048,
            nonce="n" * 512,
            login_hint="\u00e9" * 320,
        )
        browser = it.browser()
        if method == "GET":
            answer = await browser.get("/oauth/authorize", **parameters)
        else:
            answer = await browser.post("/oauth/authorize", parameters)
        assert answer.location.startswith(f"{uri}?error=invalid_request&")
        assert "too%20long" in answer.location

    run(tmp_path, story)
