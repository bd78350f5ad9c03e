"""Attacks on administration by programs: wider tokens, borrowed names, claims of tokens."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.authorization.endpoints.admin_api.programs import Caller, caller, give_role, person
from tests.support.harness import ADA, Harness, harness
from valetkey.authorization.actions.admin.permissions import Permission
from valetkey.authorization.features import OPERATIONS
from valetkey.authorization.model.user import Role
from valetkey.authorization.operations.roles import GIVE_ROLE
from valetkey.authorization.operations.user_records import RoleWanted
from valetkey.kernel.moment import days

END_OF_A_ROLE = (
    ("PUT", "/role", {"role": None}),
    ("PUT", "/role", {"role": "auditor"}),
    ("POST", "/disable", None),
    ("DELETE", "", None),
)


def _run(tmp_path: Path, database: str, story: Callable[[Harness], Awaitable[None]]) -> None:
    async def tell() -> None:
        async with harness(tmp_path, database) as it:
            await story(it)

    asyncio.run(tell())


def test_ad_09_parallel_ends_of_an_api_token_succeed_once(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        body = {"name": "Next", "permissions": ["read"], "lifetime": 60}
        made = await owner.call("POST", "/tokens", body)
        path = f"/tokens/{made.record['id']}"
        ended = await asyncio.gather(*(owner.call("DELETE", path) for _ in range(64)))
        assert sorted(answer.status for answer in ended) == [204, *[404] * 63]
        assert (await Caller(it, str(made.json["token"])).call("GET", "/token")).status == 401
        assert (await it.events()).count("api_token.ended") == 1

    _run(tmp_path, database_url, story)


def test_ad_09_api_token_cannot_issue_a_broader_longer_or_foreign_token(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        bob = await person(it, "bob", Role.OWNER, 1002)
        narrow = await caller(it, Role.ADMINISTRATOR, ("read", "keys"), lifetime=days(1))
        body = {"name": "x", "permissions": ["read"], "lifetime": 60}
        for more in (
            {"permissions": ["roles"]},
            {"permissions": ["read", "clients"]},
            {"permissions": [permission.value for permission in Permission]},
            {"lifetime": 2 * 86_400},
            {"maker": bob},
            {"uid": bob},
            {"role": "owner"},
        ):
            answer = await narrow.call("POST", "/tokens", {**body, **more})
            assert answer.status == 400, more
        made = await narrow.call("POST", "/tokens", body)
        assert made.record["uid"] == ADA

    _run(tmp_path, "", story)


def test_ad_09_requests_after_loss_of_the_role_change_nothing(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        await person(it, "bob", Role.OWNER, 1002)
        one = await caller(it, Role.ADMINISTRATOR)
        acts = [one.call("POST", "/invitations", {}) for _ in range(20)]
        answers = await asyncio.gather(*acts[:10], give_role(it, ADA, Role.AUDITOR), *acts[10:])
        statuses = {answer.status for answer in answers if answer is not None}
        assert statuses <= {201, 403}
        made = sum(answer.status == 201 for answer in answers if answer is not None)
        live = await it.read(lambda tx: tx.invitations.usable(it.clock.now))
        assert len(live) == made
        assert (await one.call("POST", "/invitations", {})).status == 403

    _run(tmp_path, database_url, story)


def test_an_account_has_at_most_100_live_invitations_and_all_end_with_its_role(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        await person(it, "bob", Role.OWNER, 1002)
        one = await caller(it, Role.ADMINISTRATOR)
        answers = [await one.call("POST", "/invitations", {}) for _ in range(98)]
        answers += await asyncio.gather(*(one.call("POST", "/invitations", {}) for _ in range(8)))
        assert sorted(answer.status for answer in answers) == [*[201] * 100, *[400] * 6]
        await it.perform(GIVE_ROLE, {"uid": str(ADA)}, RoleWanted(Role.AUDITOR))
        assert not await it.read(lambda tx: tx.invitations.usable(it.clock.now))

    _run(tmp_path, database_url, story)


def test_ad_07_api_has_no_impersonation_and_shows_no_passwords() -> None:
    for operation in OPERATIONS:
        words = f"{operation.id} {operation.path} {operation.summary}".lower()
        assert "impersonat" not in words
        # A link for an account without any way to sign in; void as soon as it has one.
        if operation.path != "/users/{uid}/password-link":
            assert "password" not in operation.path
    shown = " ".join(str(operation.output) for operation in OPERATIONS)
    assert "Password" not in shown.replace("PasswordLinkIssued", "")


@pytest.mark.parametrize(
    "claim",
    ["iss", "sub", "aud", "exp", "uid", "scope", "cnf", "act", "role", "password", "claims"],
)
def test_ad_11_reserved_claim_in_a_user_update_is_refused(tmp_path: Path, claim: str) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        match = {"if-match": "*"}
        change = {"name": "Ada", claim: "x"}
        answer = await owner.call("PATCH", f"/users/{ADA}", change, headers=match)
        assert answer.status == 400
        user = await it.read(lambda tx: tx.users.find(ADA))
        assert user is not None
        assert (user.uid, user.role) == (ADA, Role.OWNER)

    _run(tmp_path, "", story)


def test_ad_03_all_unknown_records_get_the_same_error(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        reader = await caller(it, Role.AUDITOR)
        details = {
            (await reader.call("GET", f"/clients/{name}")).json["detail"]
            for name in ("nobody", "app_7f3k9qxmB2", "x" * 200)
        }
        assert len(details) == 1
        for path in ("/users/77", "/users/9007199254740991"):
            assert (await reader.call("GET", path)).status == 404

    _run(tmp_path, "", story)


def test_ad_09_api_tokens_ended_by_disabling_stay_ended_after_enabling(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        bob = await person(it, "bob", Role.ADMINISTRATOR, 1002)
        theirs = await caller(it, Role.ADMINISTRATOR, ("read",), uid=bob)
        assert (await theirs.call("GET", "/token")).status == 200
        assert (await owner.call("POST", f"/users/{bob}/disable")).status == 200
        assert (await theirs.call("GET", "/token")).status == 401
        assert (await owner.call("POST", f"/users/{bob}/enable")).status == 200
        assert (await theirs.call("GET", "/token")).status == 401
        assert (await it.events()).count("api_token.ended") == 1

    _run(tmp_path, database_url, story)


@pytest.mark.parametrize("end", END_OF_A_ROLE)
def test_end_of_a_role_ends_the_tokens_that_were_issued_in_it(
    tmp_path: Path, database_url: str, end: tuple[str, str, object]
) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        bob = await person(it, "bob", Role.ADMINISTRATOR, 1002)
        theirs = await caller(it, Role.ADMINISTRATOR, uid=bob)
        assert (await theirs.call("POST", "/invitations", {})).status == 201
        assert (await owner.call("POST", "/invitations", {})).status == 201
        method, path, body = end
        ended = await owner.call(method, f"/users/{bob}{path}", body)
        assert ended.status == 200, ended.body
        left = await it.read(lambda tx: tx.invitations.usable(it.clock.now))
        assert [invitation.made_by for invitation in left] == [ADA]
        assert (await theirs.call("GET", "/token")).status == 401
        if method != "DELETE":
            # What has ended does not come back with the role.
            await owner.call("POST", f"/users/{bob}/enable")
            await owner.call("PUT", f"/users/{bob}/role", {"role": "administrator"})
            assert (await theirs.call("GET", "/token")).status == 401
            assert (await it.events()).count("api_token.ended") == 1

    _run(tmp_path, database_url, story)


def test_promotion_to_a_higher_role_keeps_api_tokens(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        bob = await person(it, "bob", Role.ADMINISTRATOR, 1002)
        theirs = await caller(it, Role.ADMINISTRATOR, uid=bob)
        assert (await owner.call("PUT", f"/users/{bob}/role", {"role": "owner"})).status == 200
        assert (await theirs.call("GET", "/token")).status == 200

    _run(tmp_path, "", story)
