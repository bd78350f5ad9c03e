"""An owner who loses the role between the look and the write changes nothing (PostgreSQL)."""

import asyncio
from pathlib import Path
from urllib.parse import parse_qsl

import psycopg

from tests.authorization.endpoints.developer.developers import developer, join, registered
from tests.support.harness import Harness
from tests.support.plain_browser import Answer, Browser
from tests.support.visitors import ALICE, BOB, run
from tests.support.wait import CEILING
from valetkey.authorization.model.client import TeamRole
from valetkey.kernel.runtime import SYSTEM

_PATIENCE = CEILING
_WAITING = (
    "SELECT pid FROM pg_stat_activity"
    " WHERE wait_event_type = 'Lock' AND datname = current_database()"
)


def test_owner_demoted_between_read_and_write_changes_nothing(
    tmp_path: Path, postgres_url: str
) -> None:
    async def story(it: Harness) -> None:
        alice, bob = await developer(it), await developer(it, "bob")
        app, _ = await registered(it, alice)
        await join(it, app.id, BOB)
        app_path = f"/developer/apps/{app.id}"
        await alice.submit(
            await alice.get(f"{app_path}/team"), "invite", do="invite", invited="someone"
        )
        for path, button, fields in (
            (f"{app_path}/delete", "delete", {"name": app.name}),
            (f"{app_path}/team", "invite", {"do": "invite", "invited": "carol", "role": "owner"}),
            (f"{app_path}/team", "withdraw-1", {"do": "withdraw"}),
            (f"{app_path}/team", "role-1", {"do": "role"}),
            (f"{app_path}/team/remove?member={ALICE.uid}", "remove", {}),
        ):
            answer = await _demoted_meanwhile(it, postgres_url, bob, app.id, path, button, fields)
            # A withdrawal that comes too late says nothing; everything else is refused.
            assert answer.status == (303 if button == "withdraw-1" else 404), path
            assert "done=" not in answer.location
            team = await it.store.read(lambda tx: tx.members.team(app.id))
            assert {one.uid: one.role for one in team} == {
                ALICE.uid: TeamRole.OWNER,
                BOB.uid: TeamRole.MEMBER,
            }, path
            waiting = await it.store.read(lambda tx: tx.team_invitations.to(app.id, it.clock.now))
            assert [invitation.invited for invitation in waiting] == ["someone"], path
            assert await it.store.write(lambda tx: tx.members.give(app.id, BOB.uid, TeamRole.OWNER))

    run(tmp_path, story, postgres_url)


async def _demoted_meanwhile(
    it: Harness,
    url: str,
    bob: Browser,
    client_id: str,
    path: str,
    button: str,
    fields: dict[str, str],
) -> Answer:
    """What bob is answered who presses a button while another transaction demotes him."""
    page = await bob.get(path.partition("?")[0], **dict(parse_qsl(path.partition("?")[2])))
    with psycopg.connect(url) as other, psycopg.connect(url, autocommit=True) as watching:
        other.execute("UPDATE clients SET changed_at = changed_at WHERE id = %s", (client_id,))
        other.execute(
            "UPDATE memberships SET role = 'member' WHERE client_id = %s AND uid = %s",
            (client_id, BOB.uid),
        )
        pressed = asyncio.create_task(bob.submit(page, button, **fields))
        await asyncio.to_thread(_until_somebody_waits, watching)
        assert not pressed.done(), "it did not wait for who changes the team"
        other.commit()
        return await pressed


def _until_somebody_waits(connection: psycopg.Connection[tuple[int]]) -> None:
    until = SYSTEM.now() + _PATIENCE
    while not connection.execute(_WAITING).fetchone() and SYSTEM.now() < until:
        pass
