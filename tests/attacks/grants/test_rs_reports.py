"""RS: what is known of an API afterwards: reports of use, events, webhooks' data and usage."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from tests.attacks.grants.several_apis import CALENDAR, FILES, TOOL, Apis
from tests.support.live import PASSWORD, live_servers, secret_of
from tests.support.wait import CEILING
from valetkey.authorization.actions.account.removal import ExportOrigin, export
from valetkey.authorization.actions.usage import LAG, roll_up, usage_of
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.moment import Instant
from valetkey.testing.browser import UserAgent


@pytest.fixture(scope="module")
def apis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apis]:
    with live_servers(tmp_path_factory.mktemp("reports"), algorithms=tuple(Algorithm)[:2]) as world:
        yield Apis(world)


def _report(apis: Apis, client_id: str, uses: list[dict[str, object]], *watches: str) -> int:
    own = apis.world.servers.settings.source.directory / "valetkey/resource-server.credential"
    is_own = client_id == "resource-server"
    secret = own.read_text().strip() if is_own else secret_of(client_id)
    answer = requests.post(
        f"{apis.world.auth}/oauth/uses",
        json={"uses": uses, "watches": watches},
        auth=(client_id, secret),
        timeout=CEILING,
    )
    return answer.status_code


def _grant(apis: Apis, token: str, client_id: str = "web1") -> str:
    return str(apis.world.introspect(token, client_id)["grant_id"])


def _stored(apis: Apis, grant: str) -> set[str]:
    return apis.world.servers.write(lambda tx: {use.scope for use in tx.scope_uses.of_grant(grant)})


def test_an_api_reports_uses_of_its_own_tokens_only(apis: Apis) -> None:
    calendar, files = apis.ids[CALENDAR.identifier], apis.ids[FILES.identifier]
    tool, now = apis.ids[TOOL.identifier], apis.world.servers.clock.now()
    both = (CALENDAR.identifier, FILES.identifier)
    tokens = apis.tokens(both, "calendar:read shared", resource=FILES.identifier)
    grant = _grant(apis, tokens["access_token"])
    names = ("calendar:read", "files:read", "notes:read", "shared", "", "calendar:sync")
    every: list[dict[str, object]] = [
        {"grant_id": grant, "scope": name, "at": now}
        for name in (*names, f"{calendar}#calendar:read", f"{files}#shared", f"{calendar}#")
    ]
    every.append({"grant_id": grant, "at": now})
    for stranger in (tool, "resource-server"):
        assert _report(apis, stranger, every, f"{calendar}#shared", "calendar:read") == 204
        assert _stored(apis, grant) == set()
    assert _report(apis, "web1", every) == 401
    assert _report(apis, files, every) == 204
    assert _stored(apis, grant) == {f"{files}#shared"}
    assert _report(apis, calendar, every, "calendar:read", "shared", "unknown", "openid") == 204
    assert _stored(apis, grant) == {f"{files}#shared", *_at(calendar, "calendar:read", "shared")}
    watched = apis.world.servers.write(lambda tx: set(tx.scope_uses.watched(now)))
    assert {name for name in watched if name.startswith("api_")} == {
        *_at(calendar, "calendar:read", "shared")
    }


def _at(api_id: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{api_id}#{name}" for name in names)


def test_users_see_uses_under_the_name_of_the_api(apis: Apis) -> None:
    named = (CALENDAR.identifier, TOOL.identifier)
    tokens = apis.tokens(named, "calendar:read", resource=TOOL.identifier)
    grant, now = _grant(apis, tokens["access_token"]), apis.world.servers.clock.now()
    calendar, tool = apis.ids[CALENDAR.identifier], apis.ids[TOOL.identifier]
    use: dict[str, object] = {"grant_id": grant, "at": now}
    assert _report(apis, tool, [use], "") == 204
    assert _report(apis, calendar, [{**use, "scope": "calendar:read"}], "calendar:read") == 204
    assert _stored(apis, grant) == {f"{tool}#", f"{calendar}#calendar:read"}
    person = UserAgent(apis.world.auth)
    person.sign_in(person.open(f"{apis.world.auth}/oauth/sign-in"), "alice", PASSWORD)
    shown = " ".join(person.open(f"{apis.world.auth}/account/apps").text.split())
    assert "At Calendar : " in shown, shown
    assert "see your calendar Used" in shown, shown
    assert "At Tool : use this API on your behalf Used" in shown, shown

    def exported(tx: Transaction) -> dict[str, Any]:
        user = tx.users.find_by_username("alice")
        assert user is not None
        document = json.loads(export(tx, user, ExportOrigin("x", "x", "x"), now))
        return next(
            candidate
            for candidate in document["grants"]
            if TOOL.identifier in candidate["last_used_at_apis"]
        )

    exported_grant = apis.world.servers.write(exported)
    assert exported_grant["last_used"] == {}
    assert set(exported_grant["last_used_at_apis"]) >= {CALENDAR.identifier, TOOL.identifier}


def test_uses_of_tokens_from_before_an_api_was_disabled_are_not_stored(apis: Apis) -> None:
    named = (CALENDAR.identifier, TOOL.identifier)
    tokens = apis.tokens(named, "calendar:read", resource=CALENDAR.identifier)
    grant, now = _grant(apis, tokens["access_token"]), apis.world.servers.clock.now()
    tool = apis.ids[TOOL.identifier]
    use: list[dict[str, object]] = [{"grant_id": grant, "at": now}]
    apis.switch(TOOL.identifier, on=False)
    assert _report(apis, tool, use) == 401
    apis.switch(TOOL.identifier, on=True)
    assert _report(apis, tool, use) == 204
    assert _stored(apis, grant) == set(), "its part of the grant has ended"


def test_token_events_and_usage_name_the_api(apis: Apis) -> None:
    tokens = apis.tokens((CALENDAR.identifier,), "calendar:read")
    apis.world.refresh(tokens["refresh_token"]).ok()
    apis.world.token("bot1", grant_type="client_credentials", scope="calendar:sync").refused(
        400, "invalid_scope"
    )
    own = apis.world.token(
        "bot1", grant_type="client_credentials", resource=f"{CALENDAR.identifier}"
    )
    apis.world.token("bot1", path="/oauth/revoke", token=own.json["access_token"]).ok()

    def events(tx: Transaction) -> set[tuple[str, str]]:
        rows = tx.db.rows("SELECT name, data FROM events")
        return {(name, json.loads(data).get("audience", "")) for name, data in rows}

    assert apis.world.servers.write(events) >= {
        (name, CALENDAR.identifier)
        for name in (
            "code.redeemed",
            "refresh_token.used",
            "access_token.issued",
            "access_token.revoked",
        )
    }

    # An event that was stored before it named the API counts as before.
    def older(tx: Transaction) -> None:
        tx.db.run(
            "UPDATE events SET data = :data WHERE name = 'code.redeemed'",
            data='{"uid":1,"client_id":"web1","grant_id":"g","token_id":"t","scope":"read"}',
        )

    apis.world.servers.write(older)
    later = Instant(apis.world.servers.clock.now() + LAG + 60)
    while apis.world.servers.write(lambda tx: roll_up(tx, later)):
        pass
    (day, *_) = apis.world.servers.write(lambda tx: usage_of(tx, "web1", Instant(0)))
    assert day.tokens["authorization_code"] >= 1
    assert day.apis == {CALENDAR.identifier: 1}
    (own_day, *_) = apis.world.servers.write(lambda tx: usage_of(tx, "bot1", Instant(0)))
    assert own_day.apis == {CALENDAR.identifier: 1}
