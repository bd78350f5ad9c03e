"""Authorization requests that are wrong: which are told to the person, which to the client."""

from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.authorization.endpoints.visitor.looks import is_page
from tests.support.harness import NOON, Harness
from tests.support.plain_browser import usual
from tests.support.visitors import CHALLENGE, ISSUER, PKCE, WEB, run
from valetkey.kernel.replace import replace


@pytest.mark.parametrize(
    "client_id",
    ["unknown", "closed", "' or 1=1--", "a\0b", "аpp", "a" * 5_000, "-", ""],
    ids=["unknown", "disabled", "sql", "nul", "cyrillic", "long", "missing", "empty"],
)
def test_az_01_unknown_disabled_and_malformed_clients_get_the_same_page(
    tmp_path: Path, client_id: str
) -> None:
    async def story(it: Harness) -> None:
        await it.register(replace(WEB, id="closed", disabled_at=NOON))
        answers = []
        for name in ("unknown", client_id):
            answer = await it.browser().get("/oauth/authorize", **usual(client_id=name))
            is_page(answer, 400)
            reference = answer.body.partition("VK-")[2][:14]
            answers.append((answer.body.replace(reference, ""), answer.header("content-type")))
        assert answers[0] == answers[1]
        assert await it.events() == []

    run(tmp_path, story)


def test_ru_21_and_az_03_nothing_may_be_said_twice_or_in_two_places(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = it.browser()
        good = urlencode(usual())
        evil = urlencode({"redirect_uri": "https://evil.test/cb"})
        twice = [f"{good}&{evil}", f"{evil}&{good}", f"{good}&state=2", f"{good}&client_id=web1"]
        for query in twice:
            is_page(await browser.send("GET", f"/oauth/authorize?{query}"), 400)
            is_page(await browser.send("POST", "/oauth/authorize", query.encode()), 400)
        for query, body in ((good, evil), (evil, good), ("state=1", good), (good, "foo=1")):
            split = await browser.send("POST", f"/oauth/authorize?{query}", body.encode())
            is_page(split, 400)

    run(tmp_path, story)


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"response_type": "-"}, "invalid_request"),
        ({"response_type": "code code"}, "unsupported_response_type"),
        ({"response_type": "code\0"}, "unsupported_response_type"),
        ({"scope": "admin"}, "invalid_scope"),
        ({"scope": "client:read"}, "invalid_scope"),
        ({"scope": "read\nwrite"}, "invalid_scope"),
        ({"prompt": "none"}, "login_required"),
        ({"prompt": "none login"}, "invalid_request"),
        ({"prompt": "garbage"}, "invalid_request"),
        ({"prompt": " ".join(["login"] * 100)}, "invalid_request"),
        ({"max_age": "soon"}, "invalid_request"),
        ({"nonce": "n" * 4_096}, "invalid_request"),
        ({"request": "e30."}, "invalid_request_object"),
        ({"request_uri": "https://evil.test/"}, "request_uri_not_supported"),
        ({"registration": "{}"}, "registration_not_supported"),
        ({"id_token_hint": "e30.e30."}, "invalid_request"),
        ({"response_mode": "web_message"}, "invalid_request"),
        ({"resource": "https://other.example"}, "invalid_target"),
        ({"resource": "/v2"}, "invalid_target"),
        ({"login_hint": "a\r\nb"}, "invalid_request"),
        ({**PKCE, "code_challenge_method": "plain"}, "invalid_request"),
        ({**PKCE, "code_challenge_method": "S256\n"}, "invalid_request"),
        ({"code_challenge": CHALLENGE}, "invalid_request"),
    ],
    ids=str,
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_az_what_is_wrong_with_a_proven_request_is_told_to_the_client(
    tmp_path: Path, changed: dict[str, str], error: str, method: str
) -> None:
    async def story(it: Harness) -> None:
        browser, said = it.browser(), usual(**changed)
        if method == "GET":
            answer = await browser.get("/oauth/authorize", **said)
        else:
            answer = await browser.follow(await browser.post("/oauth/authorize", said))
        assert answer.status == 303
        assert answer.location.startswith("https://app.example/cb?error=")
        told = answer.told
        assert told["error"] == error
        explained, _, reference = told["error_uri"].partition("?reference=")
        assert explained == f"{ISSUER}/errors/{error}"
        assert set(told) == {"error", "error_description", "error_uri", "state", "iss"}
        assert (told["state"], told["iss"]) == ("xyz", ISSUER)
        assert told["error_description"]
        decision = it.server.decisions.drain()[-1]
        assert decision.reference == reference
        assert (decision.client_id, decision.code) == ("web1", error)
        assert await it.events() == []

    run(tmp_path, story)


@pytest.mark.parametrize(
    "state",
    ["x", '"><script>', "\0", "\r\nX: y", "\U0001f600", "&code=evil", "a+b c%20", "s" * 2_048],
    ids=lambda s: repr(s)[:20],
)
def test_az_05_state_comes_back_as_it_was_by_every_way(tmp_path: Path, state: str) -> None:
    async def story(it: Harness) -> None:
        alice = it.browser()
        refused = await alice.get("/oauth/authorize", **usual(state=state, scope="admin"))
        assert refused.told["state"] == state
        posted = await alice.follow(await alice.post("/oauth/authorize", usual(state=state)))
        answer = await alice.allow(await alice.sign_in(posted))
        assert answer.told["state"] == state
        assert answer.told["code"].startswith("vk_ac_")

    run(tmp_path, story)


@pytest.mark.parametrize("size", [2_049, 60_000])
def test_az_05_a_state_that_is_too_long_is_refused_without_it(tmp_path: Path, size: int) -> None:
    async def story(it: Harness) -> None:
        browser = it.browser()
        answer = await browser.post("/oauth/authorize", usual(state="s" * size))
        answer = await browser.follow(answer)
        assert answer.told["error"] == "invalid_request"
        assert "state" not in answer.told

    run(tmp_path, story)


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_request_too_long_to_be_carried_along_is_refused(tmp_path: Path, method: str) -> None:
    async def story(it: Harness) -> None:
        uri = "https://app.example/" + "a" * 1_970
        await it.register(replace(WEB, id="web2", redirect_uris=(uri,)))
        said = usual(
            client_id="web2",
            redirect_uri=uri,
            state="s" * 2_048,
            nonce="n" * 512,
            login_hint="\u00e9" * 320,
        )
        browser = it.browser()
        if method == "GET":
            answer = await browser.get("/oauth/authorize", **said)
        else:
            answer = await browser.post("/oauth/authorize", said)
        assert answer.location.startswith(f"{uri}?error=invalid_request&")
        assert "too%20long" in answer.location

    run(tmp_path, story)
