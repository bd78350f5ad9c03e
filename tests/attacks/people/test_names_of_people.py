"""A username is never somebody's uid, address or role, and nobody is taken for somebody else."""

import asyncio
from pathlib import Path

import pytest

from tests.authorization.endpoints.admin.people import administrator
from tests.authorization.endpoints.admin_api.programs import caller, person
from tests.authorization.endpoints.mailed.post import asked_to_sign_up, browser, run, signed_in
from tests.cli.running import valetkey
from tests.cli.site import configure
from tests.support.harness import ADA, Harness
from tests.support.visitors import ALICE, BOB
from tests.support.visitors import run as run_visitors
from valetkey.authorization.app.foundation import SCHEMA, build_foundation
from valetkey.authorization.model.event.event import USUAL_ACTOR
from valetkey.authorization.model.user import Uid, User
from valetkey.authorization.providers.rules.identities import ClaimedIdentity, FederatedAccounts
from valetkey.config.load import load
from valetkey.database.migrate import migrate
from valetkey.kernel.runtime import SYSTEM

_REFUSED = (
    "1002",
    "١٠٠٢",  # the same in Arabic digits
    "１００２",  # full-width digits, which fold to plain ones
    "-._",
    "1234567890123456",  # as long as a uid
    "uid:1002",
    "client_3q2-7wEjRWeJ1xDVZnQ0tA",
    "admin",
    "ADMIN",
    "r00t",
    "adm1n",
    "support",
    "аdmin",  # the first letter is Cyrillic
    "adrnin",
    "admın",  # without a dot on the i
    "ɑdmin",
    "ᴀdmin",
    "ada\u3164",  # with a letter that shows nothing
    "ada\ufe0f",
    "Valetkey",
)


_RENAMED = "UPDATE users SET username = '1002', username_key = '1002' WHERE uid = 5"


def test_deceptive_user_names_are_refused_everywhere(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        program = await caller(it)
        await it.password("a good long password")
        ada = await signed_in(it, "a good long password")
        await person(it, "bob", None, 1002)
        here, newcomers = browser(it), FederatedAccounts(it.foundation.accounts(), "Valetkey")
        profile = await ada.get("/account/profile")
        for name in _REFUSED:
            made = {"username": name, "email": "x@example.com"}
            assert (await program.call("POST", "/users", made)).status == 400, name
            change = {"username": name}
            headers = {"if-match": "*"}
            changed = await program.call("PATCH", f"/users/{ADA}", change, headers=headers)
            assert changed.status == 400, name
            assert (await asked_to_sign_up(it, here, username=name)).status == 400, name
            assert (await ada.submit(profile, "save", username=name)).status in {400, 422}, name
            claimed = ClaimedIdentity(
                "https://id.example", name, "x@example.com", email_verified=True, username=name
            )
            came = await it.write(
                lambda tx, name=name, claimed=claimed: newcomers.register(  # type: ignore[misc]
                    tx, claimed, name, "", it.clock.now
                )
            )
            assert isinstance(came, tuple), name
        users = await it.read(lambda tx: tx.users.page(0, 9))
        assert [user.username for user in users] == ["ada", "bob"]

    run(tmp_path, story)


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """A site with uid 1002, and somebody else who has been called `1002` since long ago."""
    file = configure(tmp_path)
    now = SYSTEM.now()

    def user(uid: int, name: str) -> User:
        return User(Uid(uid), name, f"u{uid}@example.com", now, f"User {uid}", now, now, None)

    async def fill() -> None:
        foundation = build_foundation(load(file, {}), SYSTEM, {})
        try:
            await migrate(foundation.store.engine, SCHEMA)
            for account in (user(1002, "ada"), user(5, "bob")):
                assert await foundation.store.write(
                    lambda tx, account=account: tx.users.register(account),  # type: ignore[misc]
                    done_by=USUAL_ACTOR,
                )
            await foundation.store.write(lambda tx: tx.db.run(_RENAMED), done_by=USUAL_ACTOR)
        finally:
            await foundation.store.engine.close()

    asyncio.run(fill())
    return tmp_path


def test_commands_list_the_candidates_of_an_ambiguous_user_identifier(two: Path) -> None:
    for command in (
        ("user", "role", "1002", "owner"),
        ("user", "disable", "1002", "--yes"),
        ("user", "delete", "1002", "--yes"),
        ("user", "password", "1002", "--generate-password"),
        ("user", "change", "1002", "--name", "X"),
        ("user", "sign-out", "1002"),
        ("user", "show", "1002"),
        ("registration", "developer", "1002"),
        ("admin-token", "create", "--for", "1002", "--name", "x", "--permission", "read"),
    ):
        ran = valetkey(*command, here=two)
        assert ran.code == 2, command
        assert "uid:1002 name:ada email:u1002@example.com" in ran.err, command
        assert "uid:5 name:1002 email:u5@example.com" in ran.err, command
    assert valetkey("user", "roles", "--json", here=two).json == []
    for word, uid in (("uid:1002", 1002), ("name:1002", 5), ("email:U5@example.com", 5)):
        ran = valetkey("user", "role", word, "auditor", here=two)
        assert ran.code == 0, ran.err
        assert f"Account: uid:{uid} name:" in ran.err
        holders = valetkey("user", "roles", "--json", here=two).json
        assert [holder["uid"] for holder in holders] == [uid]
        valetkey("user", "role", word, "none", here=two)
    assert valetkey("user", "show", "uid:5", "--json", here=two).json["username"] == "1002"


def test_doctor_reports_ambiguous_usernames_and_new_ones_are_refused(two: Path) -> None:
    ran = valetkey("doctor", here=two)
    assert "uid:5 name:1002" in ran.out + ran.err
    assert "valetkey user change uid:5 --username NAME" in " ".join((ran.out + ran.err).split())
    assert valetkey("user", "change", "uid:5", "--name", "Five", here=two).code == 0
    assert valetkey("user", "change", "uid:1002", "--username", "5", here=two).code == 2
    (two / "users.toml").write_text(
        '[[users]]\nusername = "5"\nemail = "x@example.com"\n', encoding="utf-8"
    )
    assert valetkey("apply", "users.toml", "--yes", here=two).code == 2


def test_console_shows_the_user_before_a_role_is_given(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        old = User(Uid(5), "five", "five@example.com", None, "Five", ALICE.created_at, 1, None)  # type: ignore[arg-type]
        assert await it.store.write(lambda tx: tx.users.register(old))
        # From before this was refused.
        await it.store.write(lambda tx: tx.db.run(_RENAMED))
        owner = await administrator(it)
        roles = await owner.get("/admin/roles")
        page = await owner.submit(roles, "give", person="1002")
        assert page.status == 400
        assert "bob@example.com" in page.body
        assert "five@example.com" in page.body
        answer = await owner.submit(roles, "give", person="uid:1002")
        assert answer.location == f"/admin/users/{BOB.uid}/role"
        assert (await it.store.read(lambda tx: tx.user_directory.with_roles(9))) == [ALICE.uid]
        page = await owner.follow(answer)
        for text in ("user ID 1002", "bob", "bob@example.com", "Bob"):
            assert text in page.body
        assert (await owner.submit(page, "do", role="support")).status == 303
        user = await it.store.read(lambda tx: tx.users.find(BOB.uid))
        assert user is not None
        assert str(user.role) == "support"
        assert (await owner.submit(roles, "give", person="nobody")).status == 400

    run_visitors(tmp_path, story)
