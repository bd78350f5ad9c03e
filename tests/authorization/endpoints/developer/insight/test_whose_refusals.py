"""Whose a refusal is: of the app that sent the request, or in whose name somebody sent it."""

from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path

from tests.support.harness import SECRET, Harness, run
from valetkey.database.decisions import Decision
from valetkey.kernel.moment import Instant


async def refusals(it: Harness, client_id: str) -> Sequence[Decision]:
    """What its team can read, oldest first, once it is written."""
    await it.refusals_recorded()
    end = Instant(1 << 53)
    decisions = await it.read(lambda tx: tx.decisions.of_client(client_id, end, "", 100))
    return sorted(decisions, key=lambda decision: (decision.endpoint, decision.check))


def test_refusals_of_every_client_endpoint_name_the_client(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        wrong = {"client_id": "web", "client_secret": "w" * 40}
        right = {"client_id": "web", "client_secret": SECRET}
        for form in (wrong, right):
            for path in ("/oauth/token", "/oauth/revoke", "/oauth/introspect"):
                grant = {"grant_type": "authorization_code", "code": "x"}
                parameters = grant if path == "/oauth/token" else {}
                answer = await it.post(path, {**form, **parameters})
                assert answer.status in {400, 401}, path
        basic = "Basic " + b64encode(b"web:" + b"w" * 40).decode()
        await it.post("/oauth/revoke", {"token": "x"}, basic)
        assert [(decision.endpoint, decision.check) for decision in await refusals(it, "web")] == [
            ("/oauth/introspect", "client.secret"),
            ("/oauth/introspect", "parameter.token.missing"),
            ("/oauth/revoke", "client.secret"),
            ("/oauth/revoke", "client.secret"),
            ("/oauth/revoke", "parameter.token.missing"),
            ("/oauth/token", "client.secret"),
            ("/oauth/token", "code.unknown"),
        ]

    run(tmp_path, story)


def test_userinfo_refusal_is_recorded_for_the_client_of_the_token(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web", access_token_format="reference")
        tokens = await it.tokens("web")
        bearer = f"Bearer {tokens.text('access_token')}"
        assert (await it.call("GET", "/oauth/userinfo", authorization=bearer)).status == 403
        await it.call("GET", "/oauth/userinfo", authorization="Bearer nothing")
        assert [decision.check for decision in await refusals(it, "web")] == ["userinfo.scope"]

    run(tmp_path, story)


def test_refusals_of_an_unknown_client_are_not_recorded(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        for client_id in ("nobody", "web\x00", "web ", "WEB"):
            form = {"client_id": client_id, "client_secret": "w" * 40}
            await it.post("/oauth/token", {**form, "grant_type": "client_credentials"})
            assert await refusals(it, client_id.replace("\x00", "")) == []

    run(tmp_path, story)
