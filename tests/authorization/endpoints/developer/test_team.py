"""Teams: asked in by letter or by name, once; an app always has an owner."""

import asyncio
import re
from pathlib import Path

import pytest

from tests.authorization.endpoints.developer.developers import (
    developer,
    join,
    registered,
    text_of,
)
from tests.support.harness import NOON, Harness
from tests.support.plain_browser import Answer, Browser
from tests.support.visitors import ALICE, BOB, run
from valetkey.authorization.actions.users import Accounts
from valetkey.authorization.model.client import TeamRole
from valetkey.authorization.model.user import Uid
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.sections.people import MailSettings, MailTransport
from valetkey.kernel.moment import Instant, days, minutes
from valetkey.kernel.replace import replace

CAROL = replace(BOB, uid=Uid(1003), username="carol", email="carol@example.com", name="Carol")


async def third_person(it: Harness) -> None:
    """Carol has an account, with the password of the others."""

    def work(tx: Transaction) -> None:
        assert tx.users.register(CAROL)
        tx.users.set_password_hash(CAROL.uid, "cr_3", tx.users.password_hash(BOB.uid) or "", NOON)

    await it.store.write(work)


async def _team(it: Harness, client_id: str) -> dict[int, str]:
    team = await it.store.read(lambda tx: tx.members.team(client_id))
    return {one.uid: one.role.value for one in team}


async def _ask(browser: Browser, path: str, invited: str, role: str = "member") -> Answer:
    return await browser.submit(
        await browser.get(path), "invite", do="invite", invited=invited, role=role
    )


async def _invitation(it: Harness, client_id: str) -> str:
    invitations = await it.store.read(lambda tx: tx.team_invitations.to(client_id, it.clock.now))
    return f"/developer/invitations/{invitations[-1].id}"


async def _links(it: Harness) -> list[tuple[str, str]]:
    """The letters about teams: to whom, and the link in each."""
    mails = await it.store.read(lambda tx: tx.mails.for_mailbox(it.clock.now, 100))
    letters = [it.foundation.outbox.open(mail) for mail in mails]
    return [
        (letter.to, letter.values["link"])
        for letter in letters
        if letter and "link" in letter.values
    ]


def test_invitation_by_username_can_be_accepted_once(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        alice, bob = await developer(it), await developer(it, "bob")
        app, _ = await registered(it, alice)
        path = f"/developer/apps/{app.id}/team"
        done = await _ask(alice, path, "Bob")
        assert done.location == f"{path}?done=invited"
        assert "If this user exists" in text_of(await alice.get(done.location))
        assert (await bob.get(f"/developer/apps/{app.id}")).status == 404
        waiting = await bob.get("/developer")
        assert "invited you to the team of" in text_of(waiting)
        offer = await _invitation(it, app.id)
        assert offer in waiting.body
        page = await bob.get(offer)
        assert "Join the team of Printer" in text_of(page)
        answers = [await bob.submit(page, "accept", do="accept") for _ in range(2)]
        assert [answer.status for answer in answers] == [303, 404]
        assert answers[0].location == f"/developer/apps/{app.id}"
        assert await _team(it, app.id) == {ALICE.uid: "owner", BOB.uid: "member"}
        assert (await bob.get(f"/developer/apps/{app.id}/settings")).status == 200
        names = sorted(name for name in await it.events() if name.startswith("team_"))
        assert names == ["team_invitation.issued", "team_member.added", "team_member.added"]

    run(tmp_path, story, database_url)


def test_invitation_does_not_reveal_accounts(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = await developer(it)
        app, _ = await registered(it, alice)
        path = f"/developer/apps/{app.id}/team"
        for invited in ("bob", "nobody-here", "bob@example.com", "nobody@example.com"):
            answer = await _ask(alice, path, invited)
            assert answer.location == f"{path}?done=invited"
        page = text_of(await alice.get(path))
        assert page.count("Invited just now") == 4

    run(tmp_path, story)


def test_invitation_email_works_only_for_its_address(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice, bob = await developer(it), await developer(it, "bob")
        app, _ = await registered(it, alice)
        path = f"/developer/apps/{app.id}/team"
        await _ask(alice, path, "bob@example.com", "owner")
        offer = await _invitation(it, app.id)
        # His address is not verified: without the letter it could be somebody else's.
        assert (await bob.get(offer)).status == 404
        assert (await bob.get(f"{offer}?link=vk_ln_wrong")).status == 404
        assert "invited you" not in text_of(await bob.get("/developer"))
        links = await _links(it)
        assert [to for to, _ in links] == ["bob@example.com"]
        link = links[0][1].removeprefix("https://auth.example")
        assert link.startswith(f"{offer}?link=vk_ln_")
        assert (await alice.get(link)).status == 404
        page = await bob.get(link)
        assert "Owners can" in text_of(page)
        answer = await bob.submit(page, "accept", do="accept")
        assert answer.status == 303
        assert await _team(it, app.id) == {ALICE.uid: "owner", BOB.uid: "owner"}
        assert (await bob.get(link)).status == 404

    mail = MailSettings(transport=MailTransport.MAILBOX)
    run(tmp_path, story, mail=mail)


def test_invitation_to_a_verified_email_can_be_declined_by_its_account(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        user = replace(BOB, email_verified_at=Instant(1))
        assert await it.store.write(lambda tx: tx.users.change(user))
        alice, bob = await developer(it), await developer(it, "bob")
        app, _ = await registered(it, alice)
        await _ask(alice, f"/developer/apps/{app.id}/team", "BOB@example.com")
        page = await bob.get(await _invitation(it, app.id))
        declined = await bob.submit(page, "decline", do="decline")
        assert declined.location == "/developer"
        assert (await bob.submit(page, "accept", do="accept")).status == 404
        assert await _team(it, app.id) == {ALICE.uid: "owner"}

    run(tmp_path, story)


def test_invitation_ends_by_withdrawal_and_after_a_week(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice, bob = await developer(it), await developer(it, "bob")
        app, _ = await registered(it, alice)
        path = f"/developer/apps/{app.id}/team"
        await _ask(alice, path, "bob")
        page = await bob.get(await _invitation(it, app.id))
        withdrawn = await alice.submit(await alice.get(path), "withdraw-1", do="withdraw")
        assert withdrawn.location == f"{path}?done=withdrawn"
        assert (await bob.submit(page, "accept", do="accept")).status == 404
        await _ask(alice, path, "bob")
        offer = await _invitation(it, app.id)
        it.clock.forward(days(7))
        bob = await developer(it, "bob")
        assert (await bob.get(offer)).status == 404
        assert await it.store.write(lambda tx: tx.team_invitations.sweep(it.clock.now, 10)) == 1
        assert await _team(it, app.id) == {ALICE.uid: "owner"}

    run(tmp_path, story)


def test_invalid_invitation_is_reported_at_its_field(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = await developer(it)
        app, _ = await registered(it, alice)
        await join(it, app.id, BOB, TeamRole.MEMBER)
        path = f"/developer/apps/{app.id}/team"
        await _ask(alice, path, "carol")
        for invited, message in (
            ("", "Enter a username or email address"),
            ("x" * 10_240, "Enter a username or email address"),
            ("a\u202eb", "Enter a username or email address"),
            ("email:bob", "Enter a username or email address"),
            ("1002", "Enter uid:1002 for the user with this user ID"),
            ("١٠٠٢", "Enter uid:1002 for the user with this user ID"),
            (f"uid:{BOB.uid}", "This user is already in the team."),
            ("name:bob", "This user is already in the team."),
            ("email:Bob@example.com", "This user is already in the team."),
            ("bob", "This user is already in the team."),
            ("alice@example.com", "This user is already in the team."),
            ("CAROL", "This user is already invited"),
        ):
            answer = await _ask(alice, path, invited)
            assert answer.status == 409
            assert message in text_of(answer), invited
        for number in range(19):
            await _ask(alice, path, f"person{number}")
        assert "There is a limit of twenty open invitations" in text_of(
            await _ask(alice, path, "one-more")
        )

    run(tmp_path, story)


def test_invitation_names_exactly_one_user_and_ends_when_they_are_removed(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        assert await it.store.write(lambda tx: tx.users.register(CAROL))
        # As accounts of version 0.2 may be called.
        renamed = "UPDATE users SET username = :name, username_key = :name WHERE uid = :uid"
        name = str(BOB.uid)
        await it.store.write(lambda tx: tx.db.run(renamed, name=name, uid=CAROL.uid))
        alice, bob = await developer(it), await developer(it, "bob")
        app, _ = await registered(it, alice)
        path = f"/developer/apps/{app.id}/team"
        for invited, meant in (
            (f"name:{BOB.uid}", CAROL.uid),
            (f"uid:{BOB.uid}", BOB.uid),
            ("uid:4711", None),
            ("name:bob", BOB.uid),
            ("email:bob@example.com", None),  # not verified: the letter is the proof
        ):
            assert (await _ask(alice, path, invited)).status == 303, invited
            invitations = await it.store.read(
                lambda tx: tx.team_invitations.to(app.id, it.clock.now)
            )
            assert (
                next(invitation for invitation in invitations if invitation.invited == invited).uid
                == meant
            )
        waiting = await it.store.read(lambda tx: tx.team_invitations.to(app.id, it.clock.now))
        offer = next(invitation for invitation in waiting if invitation.invited == "name:bob")
        page = await bob.get(f"/developer/invitations/{offer.id}")
        assert (await bob.submit(page, "accept", do="accept")).status == 303
        await alice.submit(await alice.get(f"{path}/remove", member=str(BOB.uid)), "remove")
        left = await it.store.read(lambda tx: tx.team_invitations.to(app.id, it.clock.now))
        assert {invitation.invited for invitation in left} == {f"name:{BOB.uid}", "uid:4711"}

    run(tmp_path, story)


@pytest.mark.parametrize("end", ["removed", "leaves", "demoted", "disabled"])
def test_an_invitation_ends_with_the_ownership_of_its_inviter(
    tmp_path: Path, database_url: str, end: str
) -> None:
    async def story(it: Harness) -> None:
        await third_person(it)
        alice, bob, carol = [await developer(it, name) for name in ("alice", "bob", "carol")]
        app, _ = await registered(it, alice)
        await join(it, app.id, BOB)
        path = f"/developer/apps/{app.id}/team"
        await _ask(bob, path, "carol", "owner")
        page = await carol.get(await _invitation(it, app.id))
        if end == "removed":
            await alice.submit(await alice.get(f"{path}/remove", member=str(BOB.uid)), "remove")
        elif end == "leaves":
            await bob.submit(await bob.get(f"{path}/remove", member=str(BOB.uid)), "remove")
        elif end == "demoted":
            await alice.submit(await alice.get(path), "role-2", do="role")
        else:
            accounts = Accounts(it.server.random)
            assert await it.store.write(lambda tx: accounts.disable(tx, BOB, it.clock.now))
            assert await it.store.write(
                lambda tx: accounts.enable(tx, replace(BOB, disabled_at=NOON), it.clock.now)
            )
        assert (await carol.submit(page, "accept", do="accept")).status == 404
        assert CAROL.uid not in await _team(it, app.id)
        assert await it.count("team_invitations") == 0
        assert "team_invitation.ended" in await it.events()

    run(tmp_path, story, database_url)


def test_invitation_by_a_former_owner_cannot_be_accepted(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice, bob = await developer(it), await developer(it, "bob")
        app, _ = await registered(it, alice)
        await _ask(alice, f"/developer/apps/{app.id}/team", "bob", "owner")
        page = await bob.get(await _invitation(it, app.id))
        # As in a database in which invitations outlived the membership.
        assert await it.store.write(lambda tx: tx.members.remove(app.id, ALICE.uid))
        assert (await bob.submit(page, "accept", do="accept")).status == 404
        assert await _team(it, app.id) == {}

    run(tmp_path, story)


def test_last_owner_can_neither_leave_nor_be_demoted(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        alice = await developer(it)
        app, _ = await registered(it, alice)
        await join(it, app.id, BOB, TeamRole.MEMBER)
        path = f"/developer/apps/{app.id}/team"
        page = await alice.get(path)
        demoted = await alice.submit(page, "role-1", do="role")
        assert "An app needs at least one owner" in text_of(demoted)
        ask = await alice.get(f"{path}/remove", member=str(ALICE.uid))
        assert "Leave the team of Printer" in text_of(ask)
        assert "An app needs at least one owner" in text_of(await alice.submit(ask, "remove"))
        promoted = await alice.submit(page, "role-2", do="role")
        assert promoted.location == f"{path}?done=changed"
        left = await alice.submit(ask, "remove")
        assert left.location == "/developer"
        assert await _team(it, app.id) == {BOB.uid: "owner"}
        assert (await alice.get(path)).status == 404

    run(tmp_path, story, database_url)


def test_only_one_of_two_owners_can_leave_in_parallel(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        alice, bob = await developer(it), await developer(it, "bob")
        app, _ = await registered(it, alice)
        await join(it, app.id, BOB)
        path = f"/developer/apps/{app.id}/team/remove"
        asks = [
            (alice, await alice.get(path, member=str(ALICE.uid))),
            (bob, await bob.get(path, member=str(BOB.uid))),
        ]
        answers = await asyncio.gather(*(who.submit(page, "remove") for who, page in asks))
        assert sorted(answer.status for answer in answers) == [303, 409]
        assert len(await _team(it, app.id)) == 1

    run(tmp_path, story, database_url)


def test_member_cannot_change_the_team_but_can_leave(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice, bob = await developer(it), await developer(it, "bob")
        app, _ = await registered(it, alice)
        await join(it, app.id, BOB, TeamRole.MEMBER)
        path = f"/developer/apps/{app.id}/team"
        theirs = await alice.get(path)
        seen = await bob.get(path)
        assert "Invite a member" not in text_of(seen)
        csrf = re.search(
            r'name="csrf"\s+value="([^"]+)"',
            (await bob.get(f"/developer/apps/{app.id}/settings")).body,
        )
        assert csrf is not None
        for fields in (
            {"do": "invite", "invited": "carol", "role": "owner"},
            {"do": "role", "member": str(BOB.uid), "role": "owner"},
            {"do": "withdraw", "invitation": "x"},
        ):
            assert (await bob.post(path, {"csrf": csrf[1], **fields})).status == 403
        other = {"csrf": csrf[1], "member": str(ALICE.uid)}
        assert (await bob.post(f"{path}/remove", other)).status == 404
        assert (await bob.get(f"{path}/remove", member=str(ALICE.uid))).status == 404
        ask = await bob.get(f"{path}/remove", member=str(BOB.uid))
        assert (await bob.submit(ask, "remove")).location == "/developer"
        assert await _team(it, app.id) == {ALICE.uid: "owner"}
        for odd in ("", "0", "-1", "9" * 40, "x", str(BOB.uid)):
            answer = await alice.submit(theirs, "role-1", do="role", member=odd)
            assert answer.status == 404

    run(tmp_path, story)


def test_team_page_requires_recent_authentication(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = await developer(it)
        app, _ = await registered(it, alice)
        path = f"/developer/apps/{app.id}/team"
        page = await alice.get(path)
        it.clock.forward(minutes(11))
        for answer in (
            await alice.get(path),
            await alice.submit(page, "invite", do="invite", invited="bob", role="owner"),
            await alice.get(f"{path}/remove", member=str(ALICE.uid)),
        ):
            assert answer.location.removesuffix("&repeat=yes") == f"/account/confirm?to={path}"
        assert await it.count("team_invitations") == 0

    run(tmp_path, story)
