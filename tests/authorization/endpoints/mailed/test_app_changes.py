"""The owners of an app are told once of each change that an administrator makes to it."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from tests.authorization.endpoints.admin_api.programs import Caller, caller
from tests.authorization.endpoints.mailed.post import letters, run
from tests.authorization.endpoints.mailed.test_changes_by_others import text
from tests.support.harness import Harness
from valetkey.authorization.actions.users import UserRecord
from valetkey.authorization.email.message import message_of
from valetkey.authorization.layout.brand import Brand
from valetkey.authorization.layout.language import LANGUAGES
from valetkey.authorization.model.client import Membership, TeamRole
from valetkey.authorization.model.email import EmailKind
from valetkey.authorization.model.user import Uid, User
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.replace import replace

_BOB, _CARA, _DAN, _EVE, _FAY = (Uid(uid) for uid in range(1003, 1008))
_PAGE = "http://localhost:8400/developer/apps/web"


async def _team(it: Harness) -> None:
    """Bob and Cara own the app, and Dan, whose address is unverified; Eve is only a member."""
    for uid, name in ((_BOB, "bob"), (_CARA, "cara"), (_DAN, "dan"), (_EVE, "eve"), (_FAY, "fay")):
        record = UserRecord(name, f"{name}@example.com", name.title(), email_verified=uid != _DAN)
        await it.write(partial(_register, it, record, uid))
        role = TeamRole.MEMBER if uid == _EVE else TeamRole.OWNER
        if uid != _FAY:
            joined = Membership("web", uid, role, it.clock.now)
            await it.write(partial(_join, joined))


def _register(it: Harness, record: UserRecord, uid: Uid, tx: Transaction) -> None:
    made = it.foundation.accounts().register(tx, record, it.clock.now, uid=uid)
    assert isinstance(made, User), made


def _join(joined: Membership, tx: Transaction) -> bool:
    return tx.members.add(joined)


async def _told(
    it: Harness,
    program: Caller,
    method: str,
    path: str,
    body: object = None,
    statuses: tuple[int, ...] = (200, 201, 204),
) -> Mapping[str, str]:
    """Return the emails that this call sends: the text by the name of the recipient."""
    before = await letters(it)
    answer = await program.call(method, path, body, headers={"if-match": "*"})
    assert answer.status in statuses, answer.body
    now = await letters(it)
    new = [letter for letter in now if letter not in before]
    assert len(new) == len(now) - len(before)
    assert {letter.kind for letter in new} <= {EmailKind.APP_CHANGED}
    emails = {letter.to.partition("@")[0]: text(letter) for letter in new}
    assert len(emails) == len(new)
    return emails


def test_owners_get_one_email_for_each_change_by_an_administrator(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        client = await it.client("web", name="Printer")
        await _team(it)
        program = await caller(it)
        one = "/clients/web"
        changes: tuple[tuple[str, str, object, str], ...] = (
            ("PATCH", one, {"name": "Copier"}, "edited your app Printer. Changed: Name"),
            ("POST", f"{one}/disable", None, "disabled your app Copier."),
            ("POST", f"{one}/enable", None, "enabled your app Copier."),
            ("POST", f"{one}/secrets", {}, "issued a new client secret for your app Copier."),
            ("DELETE", f"{one}/secrets/{client.secrets[0].id}", None, "revoked a client secret"),
            ("PUT", f"{one}/owners/{_FAY}", None, "made Fay an owner of your app Copier."),
            ("DELETE", f"{one}/owners/{_FAY}", None, "removed Fay from the team of your app"),
        )
        for method, path, body, sentence in changes:
            emails = await _told(it, program, method, path, body)
            # Fay is an owner before or after her own change.
            expected = {"bob", "cara"} | ({"fay"} if str(_FAY) in path else set())
            assert set(emails) == expected, path
            assert all(
                f"An administrator of Valetkey {sentence}" in it for it in emails.values()
            ), emails
            assert _PAGE in emails["bob"]
            if path != f"{one}/secrets":
                assert not await _told(it, program, method, path, body, (200, 404)), path
        await program.call("POST", f"{one}/secrets", {})
        # Two secrets work already.
        assert not await _told(it, program, "POST", f"{one}/secrets", {}, (409,))
        gone = await _told(it, program, "DELETE", one)
        assert set(gone) == {"bob", "cara"}
        assert "deleted your app Copier with its secrets" in gone["cara"]
        assert _PAGE not in gone["cara"]

    run(tmp_path, story, database_url)


def test_email_about_a_changed_app_is_in_every_language(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web", name="Printer")
        await _team(it)
        await _told(it, await caller(it), "PATCH", "/clients/web", {"name": "Copier"})
        letter = (await letters(it))[0]
        subjects: set[str] = set()
        for language in LANGUAGES:
            message = message_of(
                replace(letter, language=language.tag),
                brand=Brand(),
                mail_id="ml_1",
                from_address="a@example.com",
                from_name="",
                at=it.clock.now,
            )
            subjects.add(message["Subject"])
            html = message.get_body(("html",))
            assert html is not None
            assert "Printer" in html.get_content()
            assert f'href="{_PAGE}"' in html.get_content()
        assert len(subjects) == len(LANGUAGES)

    run(tmp_path, story)
