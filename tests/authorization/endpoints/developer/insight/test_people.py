"""People who connected: what the app may know of each, and nothing more."""

import re
from pathlib import Path

from tests.authorization.endpoints.account.people import grant_of, knows, signed_in
from tests.authorization.endpoints.developer.insight.teams import (
    WEB1,
    are_for_the_team_alone,
    team,
)
from tests.support.harness import Harness
from tests.support.visitors import ALICE, BOB, WEB, run
from valetkey.authorization.model.grant import Consent
from valetkey.authorization.model.user import Uid, User
from valetkey.authorization.portal.pages.monitoring import SHOWN
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import days, hours
from valetkey.kernel.replace import replace
from valetkey.kernel.scope import Scope


def test_user_data_is_listed_only_with_consent(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        await team(it)
        await grant_of(it, "web1", Scope.of("notes:read"))
        it.clock.forward(days(2))
        await grant_of(it, "web1", Scope.of("openid", "email"), user=BOB)
        it.clock.forward(hours(1))
        page = await (await signed_in(it)).get(f"{WEB1}/people")
        listed = page.body.partition("<tbody>")[2]
        assert listed.index(">1002<") < listed.index(">1001<")
        for there in ("bob@example.com", "notes:read", "1 hour ago", "2 days ago"):
            assert there in re.sub(r"\s+", " ", listed), there
        for hidden in ("alice@example.com", "Alice Liddell", ">Bob<", "alice", "bob<"):
            assert hidden not in listed, hidden

    run(tmp_path, story, database_url)


def test_permissions_that_all_users_allowed_are_listed_once(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await team(it)
        for user in (ALICE, BOB):
            await grant_of(it, "web1", Scope.of("notes:read"), user=user)
        page = await (await signed_in(it)).get(f"{WEB1}/people")
        assert knows(page, "Permissions of all users on this page")
        assert page.body.count("<code>notes:read</code>") == 1
        assert "Differences" not in page.body

    run(tmp_path, story)


def test_only_permissions_that_differ_are_listed_with_their_user(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await team(it)

        def connect(tx: Transaction) -> None:
            for number in range(2):
                user = _another(2_000 + number)
                assert tx.users.register(user)
                scope = Scope.of("notes:read", "openid")
                tx.consents.save(Consent(user.uid, "web1", scope, "", it.clock.now))

        await it.store.write(connect)
        await grant_of(it, "web1", Scope.of("notes:read", "notes:write"))
        page = await (await signed_in(it)).get(f"{WEB1}/people")
        assert knows(page, "Most common permissions on this page")
        above, _, listed = page.body.partition("<tbody>")
        assert "<code>openid</code>" in above
        rows = [re.sub(r"<[^>]*>|\s+", " ", row) for row in listed.split("</tr>")[:-1]]
        differing = [" ".join(row.split()) for row in rows if "Also" in row]
        assert len(differing) == 1
        assert "Also notes:write Without openid" in differing[0]
        assert "1001" in differing[0]
        assert "notes:read" not in listed

    run(tmp_path, story)


def test_pairwise_apps_see_their_own_subjects(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await team(it)
        await it.change(replace(WEB, openid=replace(WEB.openid, subject_type="pairwise")))
        await grant_of(it, "web1", Scope.of("notes:read"))
        page = await (await signed_in(it)).get(f"{WEB1}/people")
        client = await it.server.directory.find("web1")
        assert client is not None
        assert it.server.subjects.subject_of(ALICE, client) in page.body
        assert "1001" not in page.body
        assert knows(page, "Subjects are pairwise")

    run(tmp_path, story)


def test_user_pages_continue_without_gap_or_repetition(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        await team(it)

        def connect(tx: Transaction) -> None:
            for number in range(SHOWN * 2):
                user = _another(2_000 + number)
                assert tx.users.register(user)
                consent = Consent(user.uid, "web1", Scope.of("read"), "", it.clock.now)
                tx.consents.save(consent)

        await it.store.write(connect)
        await grant_of(it, "web1", Scope.of("read"))
        browser = await signed_in(it)
        page = await browser.get(f"{WEB1}/people")
        assert knows(page, "51")
        seen = re.findall(r"<bdi>(\d{4})</bdi>", page.body)
        while address := page.beside("next"):
            page = await browser.get(address)
            seen += re.findall(r"<bdi>(\d{4})</bdi>", page.body)
        assert len(seen) == len(set(seen)) == SHOWN * 2 + 1
        for wrong in ("", "1", "1.x", "0.1", "1.0", "1." + "9" * 19, "²"):
            assert (await browser.get(f"{WEB1}/people", before=wrong)).status == 400, wrong

    run(tmp_path, story, database_url)


def test_ad_03_page_cursor_reveals_no_uid_and_cannot_be_forged(
    tmp_path: Path,
) -> None:
    async def story(it: Harness) -> None:
        await team(it)
        await it.change(replace(WEB, openid=replace(WEB.openid, subject_type="pairwise")))
        uids = [7_770_000 + number for number in range(SHOWN + 1)]

        def connect(tx: Transaction) -> None:
            for uid in uids:
                user = _another(uid)
                assert tx.users.register(user)
                tx.consents.save(Consent(user.uid, "web1", Scope.of("read"), "", it.clock.now))

        await it.store.write(connect)
        browser = await signed_in(it)
        page = await browser.get(f"{WEB1}/people")
        assert "before=" in page.body
        assert not any(str(uid) in page.body for uid in uids)
        # Whoever could choose the place would find each uid in twenty questions.
        made_up = f"{it.clock.now}.{uids[3]}"
        assert (await browser.get(f"{WEB1}/people", before=made_up)).status == 400

    run(tmp_path, story)


def test_connected_users_are_listed_only_for_the_team(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await team(it)
        owner = await are_for_the_team_alone(it, f"{WEB1}/people")
        assert knows(await owner.get(f"{WEB1}/people"), "No users yet")

    run(tmp_path, story)


def _another(uid: int) -> User:
    return replace(ALICE, uid=Uid(uid), username=f"user{uid}", email=f"{uid}@example.com")
