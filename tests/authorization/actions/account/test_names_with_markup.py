"""A username has no characters of markup, by one rule at every entrance."""

import asyncio
from pathlib import Path

import pytest

from tests.authorization.endpoints.admin_api.programs import caller
from tests.authorization.endpoints.mailed.post import asked_to_sign_up, browser, run
from tests.authorization.endpoints.scim.directory import USER, Directory, tell
from tests.support.harness import Harness
from valetkey.authorization.actions.users import UserRecord, username_code
from valetkey.authorization.model.user import User

_NAMES = ("<b>", "a<script>", "tom&jerry", 'qu"ote', "back`tick", "back\\slash", "\uff1cb\uff1e")


@pytest.mark.parametrize("name", _NAMES)
def test_new_name_with_markup_is_refused(name: str) -> None:
    assert username_code(name) == "username.markup"


@pytest.mark.parametrize("name", ["o'brien", "josé.garcía", "a-b_c.d", "x+y", "営業"])
def test_ordinary_name_is_allowed(name: str) -> None:
    assert not username_code(name)


def test_username_with_markup_is_refused_by_every_interface(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        by = await caller(it)
        rows = b"username,email\n<b>,b@example.com\n"
        for name in _NAMES:
            answer = await asked_to_sign_up(it, browser(it), username=name)
            assert answer.status == 400
            body = {"username": name, "email": "grace@example.com"}
            assert (await by.call("POST", "/users", body)).status == 400
        sent = await by.call(
            "POST", "/users/imports", raw=rows, headers={"content-type": "text/csv"}
        )
        assert sent.status in {200, 201, 202}
        record = UserRecord("<b>", "b@example.com")
        accounts = it.foundation.accounts()
        made = await it.write(lambda tx: accounts.register(tx, record, it.clock.now))
        assert not isinstance(made, User)

    run(tmp_path, story)


def test_directory_cannot_set_a_username_with_markup(tmp_path: Path) -> None:
    async def story(it: Directory) -> None:
        body = {"schemas": [USER], "userName": "<b>", "emails": [{"value": "b@example.com"}]}
        answer = await it.call("POST", "/Users", body)
        if answer.status == 201:
            user = await it.it.read(lambda tx: tx.users.find_by_email("b@example.com"))
            assert user is not None
            assert not username_code(user.username)
        else:
            answer.refused(400, "invalidValue")

    asyncio.run(tell(tmp_path, "", story))
