"""Ending much: it has ended when the first transaction commits, however many rows follow."""

from pathlib import Path

from tests.support.harness import ADA, Harness, run
from valetkey.authorization.actions.account.connected_apps import connected_apps, end_app, end_apps
from valetkey.authorization.actions.bulk_revocation import continue_oldest, delete_clients
from valetkey.authorization.actions.users import sign_out_everywhere
from valetkey.authorization.authentication.session import end_session
from valetkey.authorization.storage.revocations import BATCH
from valetkey.authorization.storage.transaction import Transaction
from valetkey.database.engine import Lock
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace

_MANY = 20 * BATCH
_SESSIONS = 10 * BATCH
_SOME = 3 * BATCH + 7
_COLUMNS = {
    "grants": "client_id, uid, session_id, scope, audience, grant_type, auth_time, created_at,"
    " last_used_at, expires_at, refresh_print, refresh_expires_at, generation, sid, methods,"
    " claims, client_generation, user_generation, app_generation",
    "sessions": "uid, auth_time, methods, user_agent, created_at, last_seen_at, expires_at,"
    " proved_at, proved_by, device_id, generation",
}
_REVOKED = "SELECT COUNT(*) FROM grants WHERE revoked_at IS NOT NULL"
_ENDED = "SELECT COUNT(*) FROM sessions WHERE ended_at IS NOT NULL"


async def _fill(it: Harness, like: str, many: int = _MANY, table: str = "grants") -> None:
    """Copy one row many times, under ids of its own."""
    columns = _COLUMNS[table]
    own = "x.fingerprint || n.i, " if table == "sessions" else ""
    sql = (
        f"INSERT INTO {table} (id, {'fingerprint, ' if own else ''}{columns})"
        f" SELECT x.id || n.i, {own}{', '.join(f'x.{column}' for column in columns.split(', '))}"
        f" FROM {table} x, (WITH RECURSIVE c(i) AS"
        " (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < :many)"
        " SELECT i FROM c) n WHERE x.id = :like"
    )
    assert await it.write(lambda tx: tx.db.run(sql, like=like, many=many)) == many


async def _count(it: Harness, sql: str) -> int:
    row = await it.read(lambda tx: tx.db.row(sql))
    assert row is not None
    return int(row[0])


async def _batches(it: Harness, sql: str) -> list[int]:
    """Work off what is left; by how much each transaction changed this count."""
    changed: list[int] = []

    def work(tx: Transaction) -> int:
        # Before the first count, so that the server's own background waits.
        tx.db.exclude(Lock.ENDINGS)
        before, done, after = tx.db.row(sql), continue_oldest(tx, it.clock.now), tx.db.row(sql)
        assert before is not None
        assert after is not None
        changed.append(abs(after[0] - before[0]))
        return done

    while await it.write(work):
        pass
    return changed


async def _revoked(it: Harness) -> int:
    row = await it.read(
        lambda tx: tx.db.row("SELECT COUNT(*) FROM grants WHERE revoked_at IS NOT NULL")
    )
    assert row is not None
    return int(row[0])


async def _live(it: Harness) -> int:
    return (await it.read(lambda tx: tx.grants.usage_of("web", it.clock.now))).authorizations


async def _finish(it: Harness) -> list[int]:
    """Work off what is left; how many rows each transaction wrote."""
    wrote: list[int] = []
    while ended := await it.write(lambda tx: continue_oldest(tx, it.clock.now)):
        wrote.append(ended)
    return wrote


def test_many_grants_of_a_client_end_at_once_in_batches(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        client = await it.client("web")
        token = (await it.tokens("web")).text("access_token")
        (grant,) = await it.read(lambda tx: tx.grants.live_of_user(ADA, it.clock.now, 9))
        code = await it.code("web")
        await _fill(it, grant.id)
        assert await _live(it) == _MANY + 1
        registrar = it.foundation.registrar("test")
        assert await it.write(lambda tx: registrar.disable(tx, client, it.clock.now))
        assert await _revoked(it) == BATCH
        assert await _live(it) == 0
        off = await it.read(lambda tx: tx.clients.find("web"))
        assert off is not None
        assert await it.write(lambda tx: registrar.enable(tx, off, it.clock.now))
        assert await _live(it) == 0
        assert (await it.introspect(token)) == {"active": False}
        assert (await it.exchange("web", code)).status == 400
        it.clock.forward(1)
        fresh = (await it.tokens("web")).text("access_token")
        # The token endpoint answers between any two of the batches, each of which is small.
        wrote = await _finish(it)
        assert await _revoked(it) == _MANY + 1
        assert max(wrote) <= BATCH
        assert await _live(it) == 1
        assert (await it.introspect(fresh))["active"] is True

    run(tmp_path, story, database_url)


def test_disabling_a_user_ends_all_access_and_reports_it_in_the_feed(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        token = (await it.tokens("web")).text("access_token")
        (grant,) = await it.read(lambda tx: tx.grants.live_of_user(ADA, it.clock.now, 9))
        code = await it.code("web")
        await _fill(it, grant.id)
        accounts = it.foundation.accounts()
        user = await it.read(lambda tx: tx.users.find(ADA))
        assert user is not None
        assert await it.write(lambda tx: accounts.disable(tx, user, it.clock.now))
        assert await _revoked(it) == BATCH
        feed = await it.read(lambda tx: tx.revocations.page(it.clock.now, "", "", 1_000))
        assert ("user", str(ADA)) in {(revocation.kind, revocation.id) for revocation in feed}
        off = await it.read(lambda tx: tx.users.find(ADA))
        assert off is not None
        assert await it.write(lambda tx: accounts.enable(tx, off, it.clock.now))
        assert not await it.read(lambda tx: tx.grants.live_of_user(ADA, it.clock.now, 9))
        assert (await it.introspect(token)) == {"active": False}
        assert (await it.exchange("web", code)).status == 400
        wrote = await _finish(it)
        assert await _revoked(it) == _MANY + 1
        assert max(wrote) <= BATCH

    run(tmp_path, story, database_url)


def test_many_grants_of_one_app_end_at_once_in_batches(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        await it.client("other")
        token = (await it.tokens("web")).text("access_token")
        other = (await it.tokens("other")).text("access_token")
        grants = await it.read(lambda tx: tx.grants.live_of_user(ADA, it.clock.now, 9))
        (grant,) = (live_grant for live_grant in grants if live_grant.client_id == "web")
        code = await it.code("web")
        await _fill(it, grant.id)
        assert await it.write(lambda tx: end_app(tx, ADA, "web", it.clock.now))
        assert await _revoked(it) % BATCH == 0
        assert await _live(it) == 0
        assert (await it.introspect(token)) == {"active": False}
        assert (await it.exchange("web", code)).status == 400
        assert (await it.introspect(other))["active"] is True
        feed = await it.read(lambda tx: tx.revocations.page(Instant(0), "", "", 1_000))
        assert ("user", str(ADA)) in {(revocation.kind, revocation.id) for revocation in feed}
        it.clock.forward(1)
        fresh = (await it.tokens("web")).text("access_token")
        assert await _live(it) == 1
        assert await it.write(lambda tx: continue_oldest(tx, it.clock.now)) == BATCH
        assert await _revoked(it) % BATCH == 0
        # A second ending before the first is written takes what was begun meanwhile.
        await _fill(it, (await _newest(it)), BATCH)
        assert await it.write(lambda tx: end_app(tx, ADA, "web", it.clock.now))
        assert await _live(it) == 0
        assert (await it.introspect(fresh)) == {"active": False}

    run(tmp_path, story, database_url)


async def _newest(it: Harness) -> str:
    (grant,) = await it.read(lambda tx: tx.grants.live_of_app(ADA, "web", it.clock.now, 2))
    return grant


def test_many_sessions_end_at_once_in_batches_and_bound_grants_with_them(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        await it.client("web", ends_with_session=True)
        await it.client("lasting")
        token = (await it.tokens("web")).text("access_token")
        lasting = (await it.tokens("lasting")).text("access_token")
        grants = await it.read(lambda tx: tx.grants.live_of_user(ADA, it.clock.now, 9))
        (grant,) = (live_grant for live_grant in grants if live_grant.client_id == "web")
        await _fill(it, grant.id, _SOME)
        await _fill(it, grant.session_id, _SESSIONS, "sessions")
        user = await it.read(lambda tx: tx.users.find(ADA))
        assert user is not None
        live = await it.read(lambda tx: tx.sessions.count_live(ADA, it.clock.now))
        assert live > _SESSIONS
        assert await it.write(lambda tx: sign_out_everywhere(tx, user, it.clock.now)) == live
        assert await _count(it, _ENDED) % BATCH == 0
        assert await it.read(lambda tx: tx.sessions.count_live(ADA, it.clock.now)) == 0
        # Whoever looks one of them up finds that it has ended, though its row was not written yet.
        ids = await it.read(lambda tx: tx.db.rows("SELECT id FROM sessions WHERE ended_at IS NULL"))
        last = await it.read(lambda tx: tx.sessions.find_by_id(ids[-1][0]))
        assert last is not None
        assert last.ended_at is not None
        assert (await it.introspect(token)) == {"active": False}
        assert (await it.introspect(lasting))["active"] is True
        code = await it.code("lasting")
        assert (await it.exchange("lasting", code)).status == 200
        wrote = await _batches(it, _ENDED)
        assert max(wrote) <= BATCH
        assert await _revoked(it) == _SOME + 1
        assert await it.read(lambda tx: tx.sessions.count_live(ADA, it.clock.now)) == 1

    run(tmp_path, story, database_url)


def test_grants_of_one_session_end_with_it_in_batches(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        await it.client("web", ends_with_session=True)
        token = (await it.tokens("web")).text("access_token")
        (grant,) = await it.read(lambda tx: tx.grants.live_of_user(ADA, it.clock.now, 9))
        await _fill(it, grant.id, _SOME)
        session = await it.read(lambda tx: tx.sessions.find_by_id(grant.session_id))
        assert session is not None
        assert await it.write(lambda tx: end_session(tx, session, it.clock.now, "signed_out"))
        assert await _revoked(it) % BATCH == 0
        assert (await it.introspect(token)) == {"active": False}
        assert max(await _batches(it, _REVOKED)) <= BATCH
        assert await _revoked(it) == _SOME + 1

    run(tmp_path, story, database_url)


def test_rows_of_a_removed_user_and_of_a_removed_client_go_in_batches(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        client = await it.client("web")
        await it.tokens("web")
        (grant,) = await it.read(lambda tx: tx.grants.live_of_user(ADA, it.clock.now, 9))
        (session,) = await it.read(lambda tx: tx.sessions.live_of(ADA, it.clock.now))
        await _fill(it, grant.id)
        await _fill(it, session.id, _SOME, "sessions")
        user = await it.read(lambda tx: tx.users.find(ADA))
        assert user is not None
        removal = it.foundation.removal
        assert await it.write(lambda tx: removal.remove(tx, user, it.clock.now))
        gone = await it.read(lambda tx: tx.users.find(ADA))
        assert gone is not None
        assert not gone.email
        assert await _count(it, "SELECT COUNT(*) FROM sessions") == _SOME + 1 - BATCH
        # The first batches of this write grants.
        for _ in range(2):
            assert await it.write(lambda tx: continue_oldest(tx, it.clock.now)) == BATCH
        registrar = it.foundation.registrar("test")
        await it.write(lambda tx: registrar.remove(tx, client, it.clock.now, because="deleted"))
        before = await _count(it, "SELECT COUNT(*) FROM grants")
        assert await it.write(lambda tx: delete_clients(tx, ["web"], it.clock.now)) == BATCH
        assert await _count(it, "SELECT COUNT(*) FROM grants") == before - BATCH
        while await it.write(lambda tx: delete_clients(tx, ["web"], it.clock.now)) == BATCH:
            pass
        assert await it.read(lambda tx: tx.clients.find("web")) is None
        assert max(await _batches(it, "SELECT COUNT(*) FROM sessions")) <= BATCH
        assert await _count(it, "SELECT COUNT(*) FROM sessions") == 0
        assert await _count(it, "SELECT COUNT(*) FROM endings") == 0

    run(tmp_path, story, database_url)


def test_many_consents_end_at_once_in_batches(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        token = (await it.tokens("web")).text("access_token")
        code = await it.code("web")
        client = await it.read(lambda tx: tx.clients.find("web"))
        assert client is not None
        many = [replace(client, id=f"web{number}") for number in range(_SOME)]
        await it.write(lambda tx: [tx.clients.register(app) for app in many])
        consent = await it.read(lambda tx: tx.consents.find(ADA, "web"))
        assert consent is not None
        consents = [replace(consent, client_id=one.id, id=f"co_{one.id}") for one in many]
        await it.write(lambda tx: [tx.consents.save(one) for one in consents])
        rows = "SELECT COUNT(*) FROM consents"
        assert await _count(it, rows) == _SOME + 1
        assert await it.write(lambda tx: end_apps(tx, ADA, it.clock.now))
        assert await _count(it, rows) % BATCH == (_SOME + 1) % BATCH
        assert not await it.read(lambda tx: tx.consents.of_user(ADA, _SOME))
        assert not await it.read(lambda tx: connected_apps(tx, ADA, it.clock.now))
        assert (await it.introspect(token)) == {"active": False}
        assert (await it.exchange("web", code)).status == 400
        # A consent that is given anew before the rows are gone is another, and stays.
        last = many[-1].id
        anew = replace(consents[-1], id="co_anew")
        assert await it.write(lambda tx: tx.consents.save(anew)) == "co_anew"
        assert max(await _batches(it, rows)) <= BATCH
        left = await it.read(lambda tx: tx.consents.of_user(ADA, _SOME))
        assert [(one.client_id, one.id) for one in left] == [(last, "co_anew")]
        withdrawals = "SELECT COUNT(*) FROM events WHERE name = 'consent.withdrawn'"
        assert await _count(it, withdrawals) == _SOME

    run(tmp_path, story, database_url)
