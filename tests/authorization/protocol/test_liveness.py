"""Every yes went through the one rule of life: traced, path by path."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.asgi import Answer
from tests.support.harness import Harness, run
from valetkey.authorization.model import grant as liveness
from valetkey.authorization.model.grant import Liveness, require_live
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refusal

_AUTHENTICATE = "client_authentication"
_PACKAGE = "valetkey.authorization."


@contextmanager
def _traced(monkeypatch: pytest.MonkeyPatch) -> Generator[list[tuple[str, str]]]:
    """Who asked whether something lives, and what was answered ("" for yes)."""
    calls: list[tuple[str, str]] = []

    def trace(name: str) -> object:
        def ask(liveness: Liveness, now: Instant) -> Refusal | None:
            problem = require_live(liveness, now)
            calls.append((name.removeprefix(_PACKAGE), "" if problem is None else problem.check))
            return problem

        return ask

    users = [
        name
        for name, module in list(sys.modules.items())
        if name.startswith(_PACKAGE)
        and name != liveness.__name__
        and getattr(module, "require_live", None) is require_live
    ]
    with monkeypatch.context() as patch:
        for name in users:
            patch.setattr(sys.modules[name], "require_live", trace(name))
        yield calls


def _asked(calls: list[tuple[str, str]]) -> set[str]:
    assert all(answer == "" for _, answer in calls)
    # A client whose secret was verified within the last minute is authenticated from memory.
    remembered = "client_authentication.verified_secrets"
    return {_AUTHENTICATE if name == remembered else name for name, _ in calls}


def test_liveness_is_checked_before_every_successful_response(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(it: Harness) -> None:
        await it.client("svc", grant_types=("client_credentials",))
        await it.client("spa", type="public")
        codes = [await it.code("spa", "account:read authorizations:write") for _ in range(2)]
        with _traced(monkeypatch) as calls:

            async def went(answer: Answer, through: str) -> Answer:
                assert answer.status == 200, answer.body
                assert _asked(calls) == {_AUTHENTICATE, through}
                calls.clear()
                return answer

            own = await went(
                await it.token("svc", "/token", grant_type="client_credentials"),
                "grant_types.client_credentials",
            )
            code = await went(await it.exchange("spa", codes[0]), "grant_types.authorization_code")
            await went(await it.exchange("spa", codes[1]), "grant_types.authorization_code")
            # The successor, then the same successor again.
            fresh = code.text("refresh_token")
            again = [
                await went(await it.refresh("spa", fresh), "grant_types.refresh_token")
                for _ in range(2)
            ]
            assert again[0].text("refresh_token") == again[1].text("refresh_token")
            for token in (
                own.text("access_token"),
                code.text("access_token"),
                again[0].text("refresh_token"),
            ):
                assert (await it.introspect(token))["active"] is True
                assert _asked(calls) == {_AUTHENTICATE, "endpoints.client.introspection"}
                calls.clear()
            for token, name, verb in (
                (own.text("access_token"), "client", "read"),
                (own.text("access_token"), "client", "change"),
                (code.text("access_token"), "account", "read"),
            ):
                await went(await it.ask(token, name, verb), "endpoints.resource_server")

    run(tmp_path, story)


def test_password_grant_checks_liveness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(it: Harness) -> None:
        await it.client("own", grant_types=("password",))
        await it.password("a good long password")
        with _traced(monkeypatch) as calls:
            answer = await it.token(
                "own", grant_type="password", username="ada", password="a good long password"
            )
            assert answer.status == 200, answer.body
            assert _asked(calls) == {_AUTHENTICATE, "grant_types.password"}

    run(tmp_path, story)


_ENDS = {
    "client.disabled": "UPDATE clients SET disabled_at = 1 WHERE id = 'web'",
    "user.disabled": "UPDATE users SET disabled_at = 1",
    "grant.revoked": "UPDATE grants SET revoked_at = 1",
    "grant.expired": "UPDATE grants SET expires_at = 1",
    "session.ended": "UPDATE sessions SET ended_at = 1",
    "session.expired": "UPDATE sessions SET expires_at = 1",
}


@pytest.mark.parametrize("kind", ["jwt", "reference"])
@pytest.mark.parametrize("ended", _ENDS)
def test_ending_a_record_ends_its_dependents(tmp_path: Path, ended: str, kind: str) -> None:
    async def story(it: Harness) -> None:
        await it.client("web", ends_with_session=True, access_token_format=kind)
        tokens = await it.tokens("web", "account:read")
        token, refresh_token = tokens.text("access_token"), tokens.text("refresh_token")
        assert (await it.introspect(token))["active"] is True

        def end(tx: Transaction) -> None:
            tx.db.run(_ENDS[ended])
            tx.db.run("UPDATE revision SET number = number + 1")

        await it.write(end)
        assert await it.introspect(token) == {"active": False}
        assert await it.introspect(refresh_token) == {"active": False}
        (await it.ask(token, "account", "read")).refused(401, "invalid_token")
        answer = await it.refresh("web", refresh_token)
        if ended == "client.disabled":
            answer.refused(401, "invalid_client")
        else:
            answer.refused(400, "invalid_grant")

    run(tmp_path, story)


@pytest.mark.parametrize("ended", [e for e in _ENDS if not e.startswith(("grant", "client"))])
def test_a_code_dies_with_its_session_and_its_user(tmp_path: Path, ended: str) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        code = await it.code("web")
        await it.write(lambda tx: tx.db.run(_ENDS[ended]))
        (await it.exchange("web", code)).refused(400, "invalid_grant")
        assert await it.events() == ["code.spoiled"]

    run(tmp_path, story)


@pytest.mark.parametrize(
    ("liveness", "ended"),
    [
        (Liveness(), ""),
        (Liveness(client_disabled=True, user_disabled=True), "client.disabled"),
        (Liveness(user_disabled=True, grant_revoked=True), "user.disabled"),
        (Liveness(grant_revoked=True, grant_ends_at=Instant(0)), "grant.revoked"),
        (Liveness(grant_ends_at=Instant(10)), "grant.expired"),
        (Liveness(grant_ends_at=Instant(11)), ""),
        (Liveness(session_ended=True, token_revoked=True), "session.ended"),
        (Liveness(session_ends_at=Instant(10)), "session.expired"),
        (Liveness(session_ends_at=Instant(11)), ""),
        (Liveness(token_revoked=True), "token.revoked"),
    ],
)
def test_liveness_refusal_names_the_first_cause(liveness: Liveness, ended: str) -> None:
    problem = require_live(liveness, Instant(10))
    assert (problem.check if problem else "") == (f"live.{ended}" if ended else "")
    assert problem is None or problem.code is ErrorCode.INVALID_GRANT
