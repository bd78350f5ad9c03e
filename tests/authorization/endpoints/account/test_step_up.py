"""Before something that matters: who is it, again."""

from pathlib import Path

from tests.authorization.endpoints.account.people import knows, signed_in
from tests.support.harness import Harness
from tests.support.plain_browser import PASSWORD
from tests.support.visitors import ALICE, run
from valetkey.authorization.authentication.session import PROOF_LASTS, find_present


async def proof(it: Harness, cookie: str) -> tuple[int, tuple[str, ...]]:
    key, settings, now = it.server.keyring.fingerprint_key, it.server.sessions, it.clock.now
    live_session = await it.store.read(lambda tx: find_present(tx, cookie, "", key, settings, now))
    assert live_session is not None
    session = live_session.signed_in.session
    return now - session.proved_at, session.proved_by


def test_step_up_checks_password_and_renews_the_session(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        alice = await signed_in(it)
        it.clock.forward(PROOF_LASTS)
        page = await alice.get("/account/confirm?to=/account/apps")
        assert page.status == 200
        assert knows(page, "Confirm your identity")
        wrong = await alice.submit(page, "confirm", password="wrong")
        assert wrong.status == 401
        assert knows(wrong, "Incorrect password. Try again")
        before = alice.cookies["__Host-session"]
        assert await proof(it, before) == (PROOF_LASTS, ("pwd",))
        done = await alice.submit(wrong, "confirm", password=PASSWORD)
        assert done.location == "/account/apps"
        assert alice.cookies["__Host-session"] != before
        assert await proof(it, alice.cookies["__Host-session"]) == (0, ("pwd",))
        assert (await it.events()).count("identity.confirmed") == 1
        # The old cookie is worth nothing now.
        thief = it.browser({"__Host-session": before})
        assert (await thief.get("/account/apps")).location == "/oauth/sign-in?to=/account/apps"

    run(tmp_path, story, database_url)


def test_step_up_says_that_a_submitted_form_did_nothing(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        nothing = "Nothing has been done yet"
        alice = await signed_in(it)
        asked = await alice.get("/account/delete")
        it.clock.forward(PROOF_LASTS + 1)
        assert not knows(await alice.follow(await alice.get("/account/delete")), nothing)
        page = await alice.follow(await alice.submit(asked, "delete", username="alice"))
        assert knows(page, nothing)
        wrong = await alice.submit(page, "confirm", password="guess")
        assert knows(wrong, nothing)
        done = await alice.submit(wrong, "confirm", password=PASSWORD)
        assert done.location == "/account/delete"

    run(tmp_path, story)


def test_step_up_requires_a_session(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        page = await it.browser().get("/account/confirm")
        assert page.location == "/oauth/sign-in?to=/account/confirm"

    run(tmp_path, story)


def test_step_up_refuses_the_password_of_another_user(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = await signed_in(it)
        await it.store.write(lambda tx: tx.users.set_password_hash(ALICE.uid, "cr_x", "x", 1))  # type: ignore[arg-type]
        page = await alice.get("/account/confirm")
        fields = {"password": PASSWORD, "username": "bob"}
        assert (await alice.submit(page, "confirm", **fields)).status == 401

    run(tmp_path, story)


def test_step_up_failures_are_limited_like_failed_sign_ins(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = await signed_in(it)
        page = await alice.get("/account/confirm")
        for _ in range(it.settings.limits.sign_in_failures):
            assert (await alice.submit(page, "confirm", password="guess")).status == 401
        waits = await alice.submit(page, "confirm", password=PASSWORD)
        assert waits.status == 429
        assert int(waits.header("retry-after")) > 0

    run(tmp_path, story)
