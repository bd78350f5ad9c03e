"""Operators find out why a sign-in failed: in its event, and by the reference of an error page."""

import re
from pathlib import Path

import pytest

from tests.authorization.endpoints.account.people import knows, signed_in
from tests.authorization.endpoints.admin.people import administrator
from tests.authorization.endpoints.admin_api.programs import caller
from tests.authorization.endpoints.mailed.post import browser
from tests.support.harness import Harness
from tests.support.plain_browser import PASSWORD, Browser
from tests.support.visitors import ALICE, BOB, run
from valetkey.authorization.model.user import Role, Uid
from valetkey.kernel.replace import replace

SECRET = "a-secret-that-nobody-may-read"


async def reference_of_a_refusal(it: Harness, here: Browser) -> str:
    """Ask for a redirect URI that is not registered, with secrets beside it."""
    page = await here.get(
        "/oauth/authorize",
        response_type="code",
        client_id="web1",
        redirect_uri="https://app.example/other",
        state=SECRET,
        client_secret=SECRET,
    )
    match = re.search(r"VK(?:-[0-9A-Z]{4}){3}", page.body)
    assert match is not None, page.body
    # Without background jobs, the record is written here.
    for decision in it.server.decisions.drain(9):
        await it.write(lambda tx, made=decision: tx.decisions.add(made))  # type: ignore[misc]
    return match[0]


async def because(it: Harness, name: str, password: str) -> str:
    here = it.browser()
    page = await here.get("/oauth/sign-in")
    answer = await here.submit(page, "sign-in", username=name, password=password)
    assert answer.status == 401
    # The page says the same in every case.
    assert "wrong" in answer.body.lower() or "incorrect" in answer.body.lower()
    admin = await signed_in(it)
    assert (await admin.get("/admin")).status == 200
    shown = await admin.get("/admin/events", name="sign_in.failed")
    text = re.sub(r"<[^>]+>", " ", shown.body)
    match = re.search(r"failed:\s+([\w ]+?)\s*\.", text)
    assert match is not None, text
    return match[1]


@pytest.mark.parametrize(
    ("name", "password", "expected"),
    [
        ("bob", "wrong", "the password is wrong"),
        ("nobody-here", PASSWORD, "there is no such account"),
        ("carol", PASSWORD, "the account is disabled"),
        ("dora", PASSWORD, "the account has no password"),
    ],
)
def test_event_of_a_failed_sign_in_shows_the_reason(
    tmp_path: Path, name: str, password: str, expected: str
) -> None:
    async def story(it: Harness) -> None:
        await administrator(it)
        now = it.clock.now
        others = [
            replace(BOB, uid=Uid(1003), username="carol", email="c@example.com", disabled_at=now),
            replace(BOB, uid=Uid(1004), username="dora", email="d@example.com"),
        ]
        await it.write(lambda tx: [tx.users.register(user) for user in others])
        assert await because(it, name, password) == expected

    run(tmp_path, story)


@pytest.mark.parametrize("role", list(Role))
def test_console_finds_the_record_of_a_reference(tmp_path: Path, role: Role) -> None:
    async def story(it: Harness) -> None:
        reference = await reference_of_a_refusal(it, it.browser())
        admin = await administrator(it, role)
        for typed in (reference, reference.lower(), f" {reference.replace('-', ' ')} "):
            page = await admin.get("/admin/events", person=typed)
            assert page.status == 200
            assert 'id="refusal"' in page.body, typed
            assert "https://app.example/other" in page.body
            assert "web1" in page.body
            assert SECRET not in page.body
        none = await admin.get("/admin/events", person="VK-0000-0000-0000")
        assert knows(none, "There is no record of this reference")
        bob = await signed_in(it, "bob")
        assert (await bob.get("/admin/events", person=reference)).status == 404

    run(tmp_path, story)


def test_admin_api_finds_the_record_of_a_reference(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        reference = await reference_of_a_refusal(it, browser(it))
        program = await caller(it)
        answer = await program.call("GET", f"/refusals/{reference}")
        assert answer.status == 200, answer.body
        for text in (reference, "https://app.example/other", "web1", "redirect_uri"):
            assert text in answer.body.decode(), text
        assert SECRET not in answer.body.decode()
        for unknown in ("VK-0000-0000-0000", "x", "%00", "VK-" + "A" * 500, str(ALICE.uid)):
            assert (await program.call("GET", f"/refusals/{unknown}")).status in {400, 404}

    run(tmp_path, story, database_url, issuer="http://localhost:8400")
