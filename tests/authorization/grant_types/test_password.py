"""The password grant: for whom it is, how long its tokens live, and what it never gives."""

from pathlib import Path

import pytest

from tests.support.asgi import Answer
from tests.support.harness import ADA, Harness, run
from valetkey.authorization.model.client import ClientType
from valetkey.authorization.operations.user_access import SECURE, WAIVE_FACTOR
from valetkey.authorization.operations.user_records import AccountSecured, PasswordLink
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import hours
from valetkey.kernel.replace import replace

_WORD = "a good long password"


async def _ask(it: Harness, client_id: str = "own", **parameters: str) -> Answer:
    form = {"grant_type": "password", "username": "ada", "password": _WORD, **parameters}
    return await it.token(client_id, **form)


def test_correct_password_issues_an_access_token(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("own", grant_types=("password",), access_token_lifetime=hours(8))
        await it.password(_WORD)
        answer = await _ask(it)
        assert answer.status == 200, answer.body
        assert answer.json["uid"] == 1001
        assert answer.json["expires_in"] == hours(1)
        assert "refresh_token" not in answer.json
        assert "client:read" not in answer.text("scope")
        narrow = await _ask(it, scope="notes:read")
        assert narrow.json["scope"] == "notes:read"
        assert await it.events() == ["access_token.issued"] * 2

    run(tmp_path, story)


@pytest.mark.parametrize(
    ("said", "status", "code"),
    [
        ({"password": "wrong"}, 400, "invalid_grant"),
        ({"username": "bob"}, 400, "invalid_grant"),
        ({"username": "a\0b"}, 400, "invalid_grant"),
        ({"password": ""}, 400, "invalid_request"),
        ({"username": ""}, 400, "invalid_request"),
        ({"scope": "client:read"}, 400, "invalid_scope"),
        ({"scope": "unknown"}, 400, "invalid_scope"),
        ({"resource": "https://other.example"}, 400, "invalid_target"),
    ],
)
def test_invalid_password_request_is_refused_without_a_token(
    tmp_path: Path, said: dict[str, str], status: int, code: str
) -> None:
    async def story(it: Harness) -> None:
        await it.client("own", grant_types=("password",))
        await it.password(_WORD)
        (await _ask(it, **said)).refused(status, code)
        assert "access_token.issued" not in await it.events()

    run(tmp_path, story)


def test_password_request_of_a_client_without_scopes_is_refused(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("own", grant_types=("password",), scopes=())
        await it.password(_WORD)
        (await _ask(it)).refused(400, "invalid_scope")

    run(tmp_path, story)


def test_password_grant_is_refused_for_user_with_a_second_factor(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("own", grant_types=("password",))
        await it.password(_WORD)
        await it.write(
            lambda tx: tx.db.run(
                "INSERT INTO credentials (id, uid, kind, data, created_at)"
                " VALUES ('cr_2', 1001, 'totp', '', 0)"
            )
        )
        refused, wrong = await _ask(it), await _ask(it, password="wrong")
        refused.refused(400, "invalid_grant")
        assert refused.json["error_description"] == wrong.json["error_description"]

    run(tmp_path, story)


def test_password_grant_is_refused_for_public_client(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        client = await it.client("own", grant_types=("password",))
        await it.password(_WORD)

        def make_public(tx: Transaction) -> bool:
            # Past the rules of registration, as an older version may have left it.
            return tx.clients.change(replace(client, type=ClientType.PUBLIC))

        await it.write(make_public)
        (await _ask(it)).refused(400, "unauthorized_client")

    run(tmp_path, story)


def test_user_disabled_meanwhile_gets_no_token(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("own", grant_types=("password",))
        await it.password(_WORD)
        user = await it.read(lambda tx: tx.users.find_by_name("ada"))
        assert user is not None
        accounts = it.foundation.accounts()
        assert await it.write(lambda tx: accounts.disable(tx, user, it.clock.now))
        (await _ask(it)).refused(400, "invalid_grant")

    run(tmp_path, story)


def test_password_grant_is_refused_for_user_who_must_add_a_second_factor(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        await it.client("own", grant_types=("password",))
        ada = {"uid": str(ADA)}
        await it.perform(SECURE, ada, AccountSecured(PasswordLink.SHOW))
        await it.password(_WORD)
        (await _ask(it)).refused(400, "invalid_grant")
        await it.perform(WAIVE_FACTOR, ada)
        assert (await _ask(it)).status == 200
        assert (await it.events()).count("second_factor.waived") == 1

    run(tmp_path, story, database_url)
