"""The checks of an authorization request: their order, and which are judged again at the end."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.authorization.endpoints.authorize.test_interaction import pending_of
from tests.support.harness import NOON, Harness
from tests.support.visitors import ALICE, WEB, run
from valetkey.authorization.endpoints.authorize import checks
from valetkey.authorization.endpoints.authorize.authorize import Answer, answer
from valetkey.authorization.endpoints.authorize.checks import ClientError
from valetkey.authorization.model.client import Client, ProfileName
from valetkey.authorization.protocol.interaction import Ask, ShowSignIn
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.refusal import Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.scope import Scope

AGAIN = ("CLIENT_CHECKS", "PARAMETER_CHECKS", "STEP_CHECKS")


def _recorded(check: Callable[..., object], made: list[str], name: str) -> Callable[..., object]:
    def recorded(*arguments: object) -> object:
        made.append(name)
        return check(*arguments)

    return recorded


def test_every_repeated_check_runs_within_the_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(it: Harness) -> None:
        made: list[str] = []
        expected: list[str] = []
        for of in (*AGAIN, "ANSWER_CHECKS"):
            original_checks = getattr(checks, of)
            expected += [check.__name__ for check in original_checks]
            recorded = tuple(_recorded(check, made, check.__name__) for check in original_checks)
            monkeypatch.setattr(checks, of, recorded)
        pending = await pending_of(it)
        await it.change(replace(WEB, description="Prints them all"))
        made.clear()
        assert "Issued" in type(await answer(it.server, pending, it.clock.now)).__name__
        assert made == expected

    run(tmp_path, story)


async def _told(it: Harness, change: Callable[[Transaction], object]) -> str:
    """The outcome of a request after which `change` was made before it was answered."""
    pending = await pending_of(it)
    await it.store.write(change)
    try:
        outcome: Answer = await answer(it.server, pending, it.clock.now)
    except Refused as refused:
        return f"user: {refused.refusal.check}"
    if isinstance(outcome, ClientError):
        return f"client: {outcome.refusal.check}"
    return type(outcome).__name__


def _client(client: Client) -> Callable[[Transaction], object]:
    return lambda tx: tx.clients.change(client)


CHANGES: dict[str, tuple[Callable[[Transaction], object], str]] = {
    "client disabled": (_client(replace(WEB, disabled_at=NOON)), "user: authorize.client"),
    "redirect URI removed": (
        _client(replace(WEB, redirect_uris=("https://app.example/other",))),
        "user: redirect_uri.unknown",
    ),
    "grant type removed": (
        _client(replace(WEB, grant_types=frozenset({"refresh_token"}))),
        "client: response_type.forbidden",
    ),
    "scope removed": (_client(replace(WEB, scope=Scope.of("write"))), "client: scope.wider"),
    "PKCE required": (_client(replace(WEB, requires_pkce=True)), "client: pkce.missing"),
    "profile with PKCE": (
        _client(replace(WEB, profile_name=ProfileName.MODERN)),
        "client: pkce.missing",
    ),
    "name changed": (_client(replace(WEB, name="Another app")), Ask.__name__),
    "group required": (
        _client(replace(WEB, openid=replace(WEB.openid, required_groups=("staff",)))),
        "client: interaction.groups",
    ),
    "user disabled": (
        lambda tx: tx.users.change(replace(ALICE, disabled_at=NOON)),
        ShowSignIn.__name__,
    ),
    "another client changed": (_client(replace(WEB, description="")), "Issued"),
}


@pytest.mark.parametrize("changed", CHANGES)
def test_change_before_the_transaction_is_detected_within_it(tmp_path: Path, changed: str) -> None:
    change, expected = CHANGES[changed]

    async def story(it: Harness) -> None:
        assert await _told(it, change) == expected

    run(tmp_path, story)
