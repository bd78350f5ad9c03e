"""Deleting an app: by its name, knowing for how many it ends, and for ever."""

from pathlib import Path

from tests.authorization.endpoints.account.people import grant_of, live
from tests.authorization.endpoints.developer.developers import (
    developer,
    join,
    registered,
    text_of,
)
from tests.support.harness import Harness
from tests.support.visitors import ALICE, BOB, run
from valetkey.authorization.actions.teams import own_apps, owned_apps, sole_owned
from valetkey.authorization.model.client import TeamRole
from valetkey.authorization.portal.rules.apps import sweep_deleted
from valetkey.authorization.storage.revocations import RevokedKind
from valetkey.kernel.moment import Instant, minutes
from valetkey.kernel.scope import Scope


def test_app_deletion_lists_effects_and_requires_the_name(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        alice = await developer(it)
        app, _ = await registered(it, alice)
        await join(it, app.id, BOB, TeamRole.MEMBER)
        await grant_of(it, app.id, Scope.of("notes:read"))
        await grant_of(it, app.id, Scope.of("notes:read"), user=BOB)
        await grant_of(it, app.id, Scope.of("notes:read"), user=BOB)
        path = f"/developer/apps/{app.id}/delete"
        page = await alice.get(path)
        assert "2 connected users lose access" in text_of(page)
        assert "3 authorizations end" in text_of(page)
        for typed in ("", "printer", "Printer 2"):
            wrong = await alice.submit(page, "delete", name=typed)
            assert wrong.status == 422
            assert "The name does not match. Enter it exactly as shown above" in text_of(wrong)
        assert await live(it, ALICE)
        done = await alice.submit(page, "delete", name=" Printer ")
        assert done.location == "/developer?deleted=1"
        assert await live(it, ALICE) == await live(it, BOB) == []
        assert "App deleted" in text_of(await alice.get(done.location))
        for browser in (alice, await developer(it, "bob")):
            assert (await browser.get(f"/developer/apps/{app.id}")).status == 404
        assert (await alice.submit(page, "delete", name="Printer")).status == 404
        revocations = await it.store.read(lambda tx: tx.revocations.page(Instant(0), "", "", 100))
        assert (RevokedKind.CLIENT, app.id) in [
            (revocation.kind, revocation.id) for revocation in revocations
        ]
        events = await it.store.read(lambda tx: tx.events.page(Instant(0), "", 100))
        (removed,) = [event for event in events if event.name == "client.removed"]
        assert removed.done_by == f"user {ALICE.uid}"
        # What is under way may still write a row; then everything of it goes.
        assert await it.store.write(lambda tx: sweep_deleted(tx, it.clock.now)) == 0
        it.clock.forward(minutes(1))
        # A batch at a time, until nothing is left to delete.
        assert await it.store.write(lambda tx: sweep_deleted(tx, it.clock.now)) > 0
        for _ in range(9):
            await it.store.write(lambda tx: sweep_deleted(tx, it.clock.now))
        assert await it.store.read(lambda tx: tx.clients.find(app.id)) is None
        assert await it.store.read(lambda tx: tx.clients.was_removed(app.id))
        assert await it.count("removals") == 0

    run(tmp_path, story, database_url)


def test_app_deletion_requires_recent_authentication_of_an_owner(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice, bob = await developer(it), await developer(it, "bob")
        app, _ = await registered(it, alice)
        await join(it, app.id, BOB, TeamRole.MEMBER)
        path = f"/developer/apps/{app.id}/delete"
        page = await alice.get(path)
        assert "The app has no connected users" in text_of(page)
        assert (await bob.get(path)).status == 403
        it.clock.forward(minutes(11))
        assert (await alice.get(path)).location == f"/account/confirm?to={path}"
        answer = await alice.submit(page, "delete", name="Printer")
        assert answer.location == f"/account/confirm?to={path}&repeat=yes"
        assert await it.count("removals") == 0

    run(tmp_path, story)


def test_own_and_owned_apps_are_listed(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await join(it, "web1", ALICE)
        await join(it, "nat1", ALICE)
        await join(it, "nat1", BOB)
        await join(it, "web1", BOB, TeamRole.MEMBER)

        async def of(ask: object, uid: int) -> list[str]:
            apps = await it.store.read(lambda tx: ask(tx, uid))  # type: ignore[operator]
            return [getattr(app, "client", app).id for app in apps]

        assert await of(own_apps, BOB.uid) == ["web1", "nat1"]
        assert await of(owned_apps, BOB.uid) == ["nat1"]
        assert await of(sole_owned, ALICE.uid) == ["web1"]
        assert await of(sole_owned, BOB.uid) == []
        assert await it.store.write(lambda tx: tx.members.remove("nat1", BOB.uid))
        assert await of(sole_owned, ALICE.uid) == ["web1", "nat1"]

    run(tmp_path, story)
