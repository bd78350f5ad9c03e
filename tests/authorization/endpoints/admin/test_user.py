"""One person in the hands of those who look after them: what each role may do, and what ends."""

import asyncio
from pathlib import Path

from tests.authorization.endpoints.account.people import grant_of, knows, live, signed_in
from tests.authorization.endpoints.admin.people import administrator, do, give
from tests.support.cases import case
from tests.support.harness import Harness
from tests.support.visitors import ALICE, BOB, WEB, run
from valetkey.authorization.model.user import Role, User
from valetkey.authorization.storage.records import EventRecord
from valetkey.config.sections.people import MailSettings, MailTransport
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace
from valetkey.kernel.scope import Scope

PAGE = f"/admin/users/{BOB.uid}"
NOTES = Scope.of("notes:read")


async def bob_now(it: Harness) -> User:
    user = await it.store.read(lambda tx: tx.users.find(BOB.uid))
    assert user is not None
    return user


async def last(it: Harness, name: str) -> EventRecord:
    page = await it.store.read(lambda tx: tx.events.page(Instant(0), "", 1_000))
    return [event for event in page if event.name == name][-1]


def test_user_page_shows_the_account_without_secrets(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        await signed_in(it, "bob")
        await grant_of(it, WEB.id, NOTES, user=BOB)
        browser = await administrator(it, Role.AUDITOR)
        page = await browser.get(PAGE)
        assert page.status == 200
        for words in ("bob@example.com", "1002", "Password", ">Firefox<", "Notes Printer"):
            assert knows(page, words) or words in page.body, words
        assert "session.started" in page.body
        assert f'href="/admin/events?person=uid:{BOB.uid}"' in page.body
        assert "argon2" not in page.body
        # An auditor is offered nothing.
        assert f"{PAGE}/" not in page.body

    run(tmp_path, story, database_url)


def test_disabling_lists_sessions_and_apps_ends_them_and_is_recorded(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        bob = await signed_in(it, "bob")
        await grant_of(it, WEB.id, NOTES, user=BOB)
        browser = await administrator(it, Role.ADMINISTRATOR)
        question = await browser.get(f"{PAGE}/disable")
        assert knows(question, "1 session ends.")
        assert knows(question, "1 app loses access.")
        assert (await bob_now(it)).disabled_at is None
        answer = await browser.submit(question, "do")
        page = await browser.follow(answer)
        assert knows(page, "The account is disabled.")
        assert (await bob_now(it)).disabled_at == it.clock.now
        assert await live(it, BOB) == []
        assert (await bob.get("/account/sessions")).status == 303
        event = await last(it, "user.disabled")
        assert (event.uid, event.done_by) == (BOB.uid, f"user {ALICE.uid}")
        # The address alone says nothing.
        assert not knows(
            await browser.get(f"{PAGE}?done=enable"), "Ended sessions and app access stay"
        )
        await do(browser, f"{PAGE}/enable")
        assert (await bob_now(it)).disabled_at is None
        assert await live(it, BOB) == []

    run(tmp_path, story, database_url)


def test_support_may_only_sign_users_out(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        bob = await signed_in(it, "bob")
        await grant_of(it, WEB.id, NOTES, user=BOB)
        browser = await administrator(it, Role.SUPPORT)
        page = await browser.get(PAGE)
        assert f"{PAGE}/sign-out" in page.body
        for act in ("disable", "enable", "verify-email", "role", "let-register", "end-app"):
            assert f"{PAGE}/{act}" not in page.body, act
            assert (await browser.get(f"{PAGE}/{act}")).status == 404, act
            _, fields = (await browser.get(f"{PAGE}/sign-out")).form("do")
            assert (await browser.post(f"{PAGE}/{act}", fields)).status == 404, act
        page = await browser.follow(await do(browser, f"{PAGE}/sign-out"))
        assert knows(page, "The user is signed out everywhere.")
        assert (await bob.get("/account/sessions")).status == 303
        # What outlasts sessions stays.
        assert len(await live(it, BOB)) == 1
        assert (await last(it, "session.ended")).done_by == f"user {ALICE.uid}"

    run(tmp_path, story, database_url)


def test_support_removes_second_factors_only_after_recent_authentication(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        bob = await signed_in(it, "bob")
        browser = await administrator(it, Role.SUPPORT)
        assert f"{PAGE}/reset-factors" not in (await browser.get(PAGE)).body
        await it.store.write(
            lambda tx: tx.db.run(
                "INSERT INTO credentials (id, uid, kind, data, created_at)"
                " VALUES ('cr_lost', 1002, 'passkey', '', 0)"
            )
        )
        assert f"{PAGE}/reset-factors" in (await browser.get(PAGE)).body
        page = await browser.follow(await do(browser, f"{PAGE}/reset-factors"))
        assert knows(page, "are removed, and the user is signed out")
        assert not await it.store.read(lambda tx: tx.users.has_second_factor(BOB.uid))
        assert await it.store.read(lambda tx: tx.users.password_hash(BOB.uid))
        assert (await bob.get("/account/sessions")).status == 303
        assert (await last(it, "factors.removed")).done_by == f"user {ALICE.uid}"
        # Only after a proof that is younger than ten minutes.
        it.clock.forward(601)
        answer = await browser.get(f"{PAGE}/reset-factors")
        assert answer.location == f"/account/confirm?to={PAGE}/reset-factors"

    run(tmp_path, story, database_url)


def test_support_sends_a_link_to_choose_another_password(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it, Role.SUPPORT)
        # To an address that may be anybody's nothing is sent.
        assert f"{PAGE}/reset-mail" not in (await browser.get(PAGE)).body
        assert (await do(browser, f"{PAGE}/reset-mail")).status == 400
        now = it.clock.now
        await it.store.write(lambda tx: tx.users.change(replace(BOB, email_verified_at=now)))
        question = await browser.get(f"{PAGE}/reset-mail")
        assert knows(question, "bob@example.com")
        page = await browser.follow(await browser.submit(question, "do"))
        assert knows(page, "The email is queued.")
        (kept,) = await it.store.read(lambda tx: tx.mails.for_mailbox(now, 9))
        assert kept.uid == BOB.uid
        assert (await last(it, "password_reset.requested")).done_by == f"user {ALICE.uid}"
        # Not as often as one likes: a mailbox is not flooded from here either.
        statuses = [(await do(browser, f"{PAGE}/reset-mail")).status for _ in range(5)]
        assert statuses == [303] * 4 + [400]
        assert await it.store.read(lambda tx: tx.users.password_hash(BOB.uid))

    run(tmp_path, story, database_url, mail=MailSettings(transport=MailTransport.MAILBOX))


def test_higher_role_cannot_be_administered(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        for mine, theirs in (
            (Role.SUPPORT, Role.ADMINISTRATOR),
            (Role.SUPPORT, Role.OWNER),
            (Role.ADMINISTRATOR, Role.OWNER),
        ):
            await give(it, None, BOB)
            await signed_in(it, "bob")
            browser = await administrator(it, mine)
            act = "sign-out"
            _, fields = (await browser.get(f"{PAGE}/{act}")).form("do")
            await give(it, theirs, BOB)
            assert f"{PAGE}/{act}" not in (await browser.get(PAGE)).body
            assert (await browser.get(f"{PAGE}/{act}")).status == 403
            refused = await browser.post(f"{PAGE}/{act}", fields)
            assert refused.status == 403
            assert knows(refused, "This user has a higher role than yours.")
        assert "session.ended" not in await it.events()

    run(tmp_path, story, database_url)


def test_ending_access_of_an_app_keeps_that_of_other_apps(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await grant_of(it, WEB.id, NOTES, user=BOB)
        kept = await grant_of(it, "nat1", NOTES, user=BOB)
        browser = await administrator(it)
        question = await browser.get(f"{PAGE}/end-app", app=WEB.id)
        assert knows(question, "Notes Printer")
        page = await browser.follow(await browser.submit(question, "do"))
        assert knows(page, "The app no longer has access.")
        assert await live(it, BOB) == [kept]
        assert (await browser.get(f"{PAGE}/end-app", app="web2")).status == 404
        assert (await browser.get(f"{PAGE}/end-app", app="\0")).status == 400

    run(tmp_path, story)


def test_administrator_verifies_email_and_allows_app_registration(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it, Role.ADMINISTRATOR)
        assert knows(await browser.get(PAGE), "Email not verified")
        page = await browser.follow(await do(browser, f"{PAGE}/verify-email"))
        assert knows(page, "The email address is marked as verified.")
        assert (await bob_now(it)).email_verified_at == it.clock.now
        assert f"{PAGE}/verify-email" not in page.body
        # In this world everybody with a verified address registers apps without being let.
        assert f"{PAGE}/let-register" not in page.body
        assert not knows(page, "Can register apps")
        await do(browser, f"{PAGE}/let-register")
        assert await it.store.read(lambda tx: tx.members.is_developer(BOB.uid))
        page = await browser.get(PAGE)
        assert f"{PAGE}/stop-register" in page.body
        assert f"{PAGE}/let-register" not in page.body
        await do(browser, f"{PAGE}/stop-register")
        assert not await it.store.read(lambda tx: tx.members.is_developer(BOB.uid))
        assert {"developer.admitted", "developer.dismissed"} <= set(await it.events())

    run(tmp_path, story)


def test_admins_cannot_disable_themselves_or_the_last_owner(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it, Role.OWNER)
        mine = f"/admin/users/{ALICE.uid}"
        answer = await do(browser, f"{mine}/disable")
        assert answer.status == 400
        assert knows(answer, "This is your own account")
        answer = await do(browser, f"{mine}/role", role="none")
        assert answer.status == 400
        assert knows(answer, "This is the last owner")
        assert "user.disabled" not in await it.events()

    run(tmp_path, story)


def test_parallel_disabling_succeeds_once(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it)
        action, fields = (await browser.get(f"{PAGE}/disable")).form("do")
        answers = await asyncio.gather(*(browser.post(action, fields) for _ in range(8)))
        assert {answer.status for answer in answers} == {303}
        assert (await it.events()).count("user.disabled") == 1

    run(tmp_path, story, database_url)


def test_deleted_account_has_no_sessions_and_no_grants(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        bob = await signed_in(it, "bob")
        await grant_of(it, WEB.id, NOTES, user=BOB)
        browser = await administrator(it, Role.ADMINISTRATOR)
        page = await browser.follow(await do(browser, f"{PAGE}/delete"))
        assert knows(page, "Account deleted")
        assert "bob@example.com" not in page.body
        assert (await browser.get(PAGE)).status == 404
        assert (await browser.get(f"{PAGE}/enable")).status == 404
        assert (await bob.get("/account/sessions")).status == 303
        assert await live(it, BOB) == []
        assert (await last(it, "user.removed")).done_by == f"user {ALICE.uid}"
        assert not knows(await browser.get("/admin/users", deleted="1001"), "Account deleted")
        # Not oneself, and not the last owner.
        assert (await do(browser, f"/admin/users/{ALICE.uid}/delete")).status == 400

    run(tmp_path, story, database_url)


_UNKNOWN_PATHS: tuple[str, ...] = (
    "/admin/users/0",
    "/admin/users/01002",
    "/admin/users/9007199254740992",
    "/admin/users/99999999999999999999",
    "/admin/users/1002x",
    "/admin/users/%31002",
    "/admin/users/-1",
    "/admin/users/4242",
    "/admin/users/4242/disable",
    f"{PAGE}/impersonate",
    f"{PAGE}/delete/x",
)


def test_unknown_path_is_not_found(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it)
        for path in _UNKNOWN_PATHS:
            with case(path):
                assert (await browser.get(path)).status == 404
                _, fields = (await browser.get(f"{PAGE}/disable")).form("do")
                assert (await browser.post(path, fields)).status in {404, 405}

    run(tmp_path, story)


def test_ad_05_role_change_requires_recent_authentication(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it)
        question = await browser.get(f"{PAGE}/role")
        assert question.status == 200
        it.clock.forward(601)
        assert (await browser.get(f"{PAGE}/role")).location == f"/account/confirm?to={PAGE}/role"
        answer = await browser.submit(question, "do", role="auditor")
        assert answer.location == f"/account/confirm?to={PAGE}/role&repeat=yes"
        assert (await bob_now(it)).role is None
        page = await browser.follow(answer)
        answer = await browser.submit(page, "confirm", password="correct horse battery staple")
        answer = await do(browser, answer.location, role="auditor")
        page = await browser.follow(answer)
        assert knows(page, "The role is changed")
        assert (await bob_now(it)).role is Role.AUDITOR
        event = await last(it, "role.changed")
        assert '"before":"","after":"auditor"' in event.data
        assert event.done_by == f"user {ALICE.uid}"
        assert (await do(browser, f"{PAGE}/role", role="king")).status == 400

    run(tmp_path, story)
