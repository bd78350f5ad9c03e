"""Reports of what apps used: from the resource server alone, and only of what was allowed."""

import json
from pathlib import Path

from tests.support.asgi import Answer, basic
from tests.support.cases import case
from tests.support.harness import ADA, CREDENTIAL, SECRET, Harness, run
from valetkey.authorization.background.maintenance import SWEEPS, sweep_all
from valetkey.authorization.model.client import RESOURCE_SERVER
from valetkey.authorization.storage.usage import FORGOTTEN_AFTER
from valetkey.kernel.moment import Instant, days, hours


async def _report(
    it: Harness, body: object, who: str = RESOURCE_SERVER, secret: str = CREDENTIAL
) -> Answer:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return await it.call("POST", "/oauth/uses", text, "application/json", basic(who, secret))


async def _known(it: Harness) -> dict[str, int]:
    return dict(await it.read(lambda tx: tx.connected.uses_of(ADA, "web", it.clock.now)))


async def _grant(it: Harness) -> str:
    await it.tokens("web", "notes:read read")
    (grant,) = await it.read(lambda tx: tx.grants.live_of_user(ADA, it.clock.now, 9))
    return grant.id


def test_last_use_is_stored_for_granted_scopes_of_active_grants_only(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        grant, now = await _grant(it), it.clock.now
        uses = [
            {"grant_id": grant, "scope": "notes:read", "at": now - 30},
            {"grant_id": grant, "scope": "read", "at": now + 9_999_999},
            {"grant_id": grant, "scope": "write", "at": now},
            {"grant_id": grant, "scope": "notes", "at": now},
            {"grant_id": "gr_unknown", "scope": "notes:read", "at": now},
        ]
        answer = await _report(it, {"uses": uses})
        assert (answer.status, answer.body) == (204, b"")
        last_uses = {"notes:read": now - 30, "read": now}
        assert await _known(it) == last_uses
        again = [{"grant_id": grant, "scope": "notes:read", "at": -5}]
        assert (await _report(it, {"uses": again})).status == 204
        assert await _known(it) == last_uses, "an older use does not hide a newer one"
        await it.write(lambda tx: tx.grants.revoke(grant, now, "test"))
        assert (await _report(it, {"uses": uses})).status == 204
        assert await _known(it) == {}
        until = Instant(now + days(400))
        assert await it.write(lambda tx: tx.scope_uses.sweep(now, 100)) == 0
        assert await it.write(lambda tx: tx.scope_uses.sweep(until, 100)) == 2

    run(tmp_path, story, database_url)


def test_scope_is_watched_since_the_first_of_its_unbroken_reports(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        began = it.clock.now
        for _ in range(30):
            assert (await _report(it, {"watches": ["read", "write"]})).status == 204
            it.clock.forward(hours(1))
        watched = await it.read(lambda tx: tx.scope_uses.watched(it.clock.now))
        assert watched == {"read": began, "write": began}
        it.clock.forward(FORGOTTEN_AFTER + 1)
        assert await it.read(lambda tx: tx.scope_uses.watched(it.clock.now)) == {}
        assert (await _report(it, {"watches": ["read"]})).status == 204
        watched = await it.read(lambda tx: tx.scope_uses.watched(it.clock.now))
        assert watched == {"read": it.clock.now}
        # One is watched again, the other is deleted.
        await sweep_all(it.foundation.store, it.clock.now, SWEEPS)
        rows = await it.read(lambda tx: tx.db.rows("SELECT scope FROM watched_scopes"))
        assert [row[0] for row in rows] == ["read"]
        await it.write(lambda tx: tx.scope_uses.watch(["a", "b"], it.clock.now))
        gone = Instant(it.clock.now + FORGOTTEN_AFTER + 1)
        batches = [await it.write(lambda tx: tx.scope_uses.sweep_watched(gone, 2)) for _ in "123"]
        assert batches == [2, 1, 0]

    run(tmp_path, story, database_url)


def test_reports_require_the_resource_server(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web", grant_types=("client_credentials",))
        assert (await _report(it, {}, "web", SECRET)).status == 401
        assert (await _report(it, {}, RESOURCE_SERVER, "wrong")).status == 401
        answer = await it.call("POST", "/oauth/uses", b"{}", "application/json")
        assert answer.status == 401

    run(tmp_path, story)


_MALFORMED_REPORTS: tuple[object, ...] = (
    b"",
    b"[]",
    b"null",
    b"{",
    {"uses": {}},
    {"uses": [{}]},
    {"uses": [{"grant_id": "gr_1", "scope": "read", "at": "now"}]},
    {"uses": [{"grant_id": "gr_1", "scope": "read", "at": True}]},
    {"uses": [{"grant_id": "gr_1", "scope": "a b", "at": 1}]},
    {"uses": [{"grant_id": "x" * 201, "scope": "read", "at": 1}]},
    {"uses": [{"grant_id": "gr\n", "scope": "read", "at": 1}]},
    {"uses": [{"grant_id": "\u00e9", "scope": "read", "at": 1}]},
    {"uses": [{"grant_id": "gr_1", "scope": "read", "at": 1}] * 501},
    {"watches": "read"},
    {"watches": ["a b"]},
    {"watches": ["a"] * 1_001},
    b'{"uses": [{"grant_id": "\\ud800", "scope": "read", "at": 1}]}',
)


def test_malformed_report_is_refused(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        for body in _MALFORMED_REPORTS:
            with case(body):
                (await _report(it, body)).refused(400, "invalid_request")

    run(tmp_path, story)
