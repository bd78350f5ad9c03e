"""Whatever a program does by the admin API is told with its token and the user who made it."""

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from tests.authorization.endpoints.admin_api.programs import caller, person
from tests.support.harness import ADA, Harness, run
from valetkey.authorization.features import OPERATIONS
from valetkey.authorization.model.event.accounts import UserChanged
from valetkey.authorization.model.event.event import (
    SYSTEM,
    USUAL_ACTOR,
    by_client,
    by_token,
    by_user,
)
from valetkey.authorization.model.event.grants import ClientEnabled
from valetkey.authorization.model.user import Role
from valetkey.authorization.storage.records import EventRecord, NoActor
from valetkey.authorization.storage.search import END, EventFilter, TimeCursor
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.replace import replace

CALLS: tuple[tuple[str, object], ...] = (
    (
        "POST /users",
        {"username": "eve", "email": "eve@example.com", "name": "Eve"},
    ),
    ("POST /users/2002/disable", None),
    ("POST /users/2002/enable", None),
    ("PUT /users/2002/developer", None),
    ("DELETE /users/2002/developer", None),
    ("PUT /users/2002/role", {"role": "auditor"}),
    ("DELETE /users/2002", None),
    ("PUT /clients/web/verified", None),
    ("DELETE /clients/web/verified", None),
    ("POST /clients/web/disable", None),
    ("POST /clients/web/enable", None),
    ("POST /clients/web/secrets", {"others_live": 60}),
    ("PUT /clients/web/legacy/implicit", None),
    ("DELETE /clients/web", None),
    ("POST /invitations", {}),
    ("POST /keys/rotate", {"at_once": True}),
    ("POST /events/export", {}),
)
"""A call and its body; the row of its operation names the event that it leaves."""


def _event(line: str) -> str:
    """The event of the operation that this call runs."""
    for operation in OPERATIONS:
        if re.fullmatch(re.sub(r"{\w+}", "[^/]+", f"{operation.method} {operation.path}"), line):
            assert operation.event is not None, line
            return operation.event.name
    raise AssertionError(line)


def test_each_call_records_its_event_with_the_token_as_actor(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        await person(it, "bob", None, 2002)
        owner = await caller(it)
        by = by_token(ADA, str((await owner.call("GET", "/token")).record["id"]))
        before = {event.id for event in await it.read(lambda tx: tx.events.newest(1_000))}
        for line, body in CALLS:
            method, path = line.split(" ", 1)
            reply = await owner.call(method, path, body)
            assert reply.status < 300, (line, reply.body)
            newest = await it.read(lambda tx: tx.events.newest(1_000))
            fresh = {event for event in newest if event.id not in before}
            assert _event(line) in {event.name for event in fresh}, line
            assert {event.done_by for event in fresh} == {by}, (line, fresh)
            before |= {event.id for event in fresh}
        event_filter = EventFilter(done_by=by)
        events = await it.read(lambda tx: tx.event_search.page(event_filter, END, 1_000))
        assert {_event(line) for line, _ in CALLS} == {event.name for event in events} - {
            "signing_key.issued"
        }

    run(tmp_path, story, database_url)


def _page(done_by: str, cursor: TimeCursor, tx: Transaction) -> Sequence[EventRecord]:
    return tx.event_search.page(EventFilter(done_by=done_by), cursor, 2)


async def _every(it: Harness, done_by: str) -> list[EventRecord]:
    """What this actor did, two events at a time."""
    seen, cursor = list[EventRecord](), END
    while True:
        page = await it.read(partial(_page, done_by, cursor))
        if not page:
            return seen
        seen += page
        cursor = TimeCursor(page[-1].at, page[-1].id)


def test_events_can_be_filtered_by_actor(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        await it.client("robot", grant_types=("client_credentials",))
        for _ in range(3):
            assert await it.own_token("robot")
            it.clock.forward(1)
        store, now = it.foundation.store, it.clock.now
        events = (UserChanged(ADA, ("name",)), UserChanged(2002, ("name",)), ClientEnabled("robot"))
        for event in events:
            await store.write(lambda tx, e=event: tx.events.add(e, now), done_by=by_user(ADA))  # type: ignore[misc]
        for done_by, names in (
            (by_client("robot"), ["access_token.issued"] * 3),
            (by_user(ADA), ["client.enabled", "user.changed", "user.changed"]),
            (SYSTEM, ["signing_key.issued"] * 2),
        ):
            seen = await _every(it, done_by)
            event_names = [record.name for record in seen if record.name in {*names}]
            assert sorted(event_names) == names, done_by
            assert {record.done_by for record in seen} == {done_by}
        of_ada = EventFilter(uid=ADA, done_by=by_user(ADA))
        (own,) = await it.read(lambda tx: tx.event_search.page(of_ada, END, 10))
        assert (own.name, own.done_by) == ("user.changed", by_user(ADA))

    run(tmp_path, story, database_url)


def test_event_stored_without_actor_has_an_unknown_actor(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        await it.write(
            lambda tx: tx.db.run(
                "INSERT INTO events (id, at, name, uid, data) VALUES ('ev_0', 1, 'user.disabled',"
                " 1001, '{}')"
            )
        )
        assert (await it.event_records())[0].done_by == "unknown"

    run(tmp_path, story, database_url)


def test_change_without_actor_is_rolled_back(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        def work(tx: Transaction) -> None:
            user = tx.users.find(ADA)
            assert user is not None
            it.foundation.accounts().disable(tx, user, it.clock.now)

        with pytest.raises(NoActor):
            await it.foundation.store.write(work, done_by=USUAL_ACTOR)
        user = await it.read(lambda tx: tx.users.find(ADA))
        assert user is not None
        assert user.disabled_at is None

    run(tmp_path, story, database_url)


def test_token_cannot_change_users_whose_role_exceeds_its_permissions(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        await person(it, "bob", Role.SUPPORT, 2002)
        await person(it, "cyd", None, 2003)
        token = await caller(it, permissions=("read", "people"))
        email = {"email": "mallory@example.com"}
        for uid, status in ((ADA, 403), (2002, 403), (2003, 200)):
            assert (await token.call("PUT", f"/users/{uid}/email", email)).status == status, uid
        support = await caller(it, permissions=("read", "reset", "people"))
        email = {"email": "bob@example.org"}
        assert (await support.call("PUT", "/users/2002/email", email)).status == 200
        assert (await support.call("PUT", f"/users/{ADA}/email", email)).status == 403

    run(tmp_path, story, database_url)


def test_revoking_a_token_revokes_tokens_that_it_created(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        first, other = await caller(it), await caller(it)
        tokens = [first]
        for name in ("second", "third"):
            body = {"name": name, "permissions": ["read", "keys"], "lifetime": 60}
            made = await tokens[-1].call("POST", "/tokens", body)
            assert made.status == 201, made.body
            tokens.append(replace(first, token=str(made.json["token"])))
        own = (await first.call("GET", "/token")).record["id"]
        assert (await first.call("DELETE", f"/tokens/{own}")).status == 204
        assert [(await program.call("GET", "/token")).status for program in tokens] == [
            401,
            401,
            401,
        ]
        assert (await other.call("GET", "/token")).status == 200

    run(tmp_path, story, database_url)
