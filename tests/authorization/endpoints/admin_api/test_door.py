"""Who may call the admin API: no token, no word; no permission, no deed; and never by a cookie."""

import asyncio
from pathlib import Path

from tests.authorization.endpoints.admin_api.programs import Caller, caller, give_role, person
from tests.support.cases import case
from tests.support.harness import ADA, Harness, run
from tests.support.plain_browser import Browser
from valetkey.authorization.actions.admin.permissions import MAY, Permission
from valetkey.authorization.features import OPERATIONS
from valetkey.authorization.model.user import Role
from valetkey.authorization.operations.operation import Operation
from valetkey.kernel.moment import days
from valetkey.kernel.runtime import SYSTEM
from valetkey.kernel.secret import Prefix, fresh_secret

_FILLED = {
    "client_id": "web",
    "grant_type": "implicit",
    "secret_id": "cs_x",
    "token_id": "at_x",
    "uid": "1002",
    "kid": "x",
    "invitation_id": "in_x",
}


def _path(operation: Operation) -> str:
    path = operation.path
    for name in operation.arguments:
        path = path.replace(f"{{{name}}}", _FILLED.get(name, "1"))
    return path


def test_operations_refuse_visitors_and_lower_roles(
    tmp_path: Path,
) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        strangers = [
            Caller(it, ""),
            Caller(it, fresh_secret(Prefix.API_TOKEN, SYSTEM.random).reveal()),
            Caller(it, "vka_" + "x" * 49),
            Caller(it, "é" * 9),
        ]
        for operation in OPERATIONS:
            for stranger in strangers:
                answer = await stranger.call(operation.method, _path(operation), raw=b"{")
                assert answer.status == 401, operation.id
                assert answer.headers["www-authenticate"].startswith("Bearer ")
                assert answer.headers["content-type"] == "application/problem+json"
        for role in Role:
            one = await caller(it, role)
            for operation in OPERATIONS:
                if operation.permission not in MAY[role]:
                    answer = await one.call(operation.method, _path(operation), raw=b"{")
                    assert answer.status == 403, (operation.id, role)
                    assert "www-authenticate" not in answer.headers

    run(tmp_path, story)


def test_every_operation_is_available_to_its_roles(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        for role in Role:
            one = await caller(it, role)
            for operation in OPERATIONS:
                if operation.permission in MAY[role]:
                    answer = await one.call(operation.method, _path(operation), raw=b"{")
                    assert answer.status not in {401, 403, 405, 500, 501}, (operation.id, role)
                    await give_role(it, ADA, role)

    run(tmp_path, story)


def test_api_token_is_limited_to_the_role_of_its_creator(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        owner = await caller(it, Role.OWNER)
        assert (await owner.call("PUT", "/clients/web/verified")).status == 200
        await give_role(it, ADA, Role.AUDITOR)
        assert (await owner.call("DELETE", "/clients/web/verified")).status == 403
        assert (await owner.call("GET", "/clients/web")).status == 200
        own = await owner.call("GET", "/token")
        assert (own.json["role"], own.json["permissions"]) == ("auditor", ["read"])
        await give_role(it, ADA, None)
        assert (await owner.call("GET", "/clients/web")).status == 401
        await give_role(it, ADA, Role.ADMINISTRATOR)
        assert (await owner.call("DELETE", "/clients/web/verified")).status == 200
        ada = await it.read(lambda tx: tx.users.find(ADA))
        assert ada is not None
        await it.write(lambda tx: it.foundation.accounts().disable(tx, ada, it.clock.now))
        assert (await owner.call("GET", "/clients/web")).status == 401

    run(tmp_path, story)


def test_api_token_ends_by_expiry_and_by_revocation(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        short = await caller(it, lifetime=days(1))
        it.clock.forward(days(1) - 1)
        assert (await short.call("GET", "/token")).status == 200
        it.clock.forward(1)
        assert (await short.call("GET", "/token")).status == 401
        owner = await caller(it)
        tokens = (await owner.call("GET", "/tokens")).items
        assert [token["works"] for token in tokens] == [True, False]
        own = str((await owner.call("GET", "/token")).record["id"])
        ended = await asyncio.gather(*(owner.call("DELETE", f"/tokens/{own}") for _ in "123"))
        assert min(reply.status for reply in ended) == 204
        assert [reply.status for reply in ended].count(204) == 1
        assert (await owner.call("GET", "/token")).status == 401

    run(tmp_path, story)


def test_api_token_cannot_create_a_wider_or_longer_one(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        narrow = await caller(it, Role.OWNER, ("read", "keys"), lifetime=days(7))
        body = {"name": "Next", "permissions": ["read"], "lifetime": 86_400}
        made = await narrow.call("POST", "/tokens", body)
        assert made.status == 201, made.body
        assert made.record["permissions"] == ["read"]
        for wider in (
            ["read", "clients"],
            ["roles"],
            [permission.value for permission in Permission],
        ):
            answer = await narrow.call("POST", "/tokens", {**body, "permissions": wider})
            assert answer.status == 400, wider
            assert "/permissions" in answer.body.decode()
        longer = await narrow.call("POST", "/tokens", {**body, "lifetime": 8 * 86_400})
        assert "/lifetime" in longer.body.decode()
        reader = Caller(it, str(made.json["token"]))
        assert (await reader.call("POST", "/tokens", body)).status == 403
        assert (await reader.call("GET", "/tokens")).status == 200

    run(tmp_path, story)


def test_lower_role_cannot_revoke_the_token_of_a_higher_role(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        of_owner = (await owner.call("GET", "/token")).record["id"]
        bob = await person(it, "bob", Role.ADMINISTRATOR, 1002)
        administrator = await caller(it, Role.ADMINISTRATOR, uid=bob)
        assert (await administrator.call("DELETE", f"/tokens/{of_owner}")).status == 403
        assert (await owner.call("GET", "/token")).status == 200

    run(tmp_path, story)


def test_session_cookies_do_not_authenticate_the_api(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await give_role(it, ADA, Role.OWNER)
        await it.password("a good long password")
        browser = Browser(it.app, host="localhost:8400", scheme="http")
        page = await browser.get("/oauth/sign-in")
        await browser.sign_in(page, "ada", "a good long password")
        cookies = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
        assert "session" in cookies
        answer = await Caller(it, "").call("GET", "/clients", headers={"cookie": cookies})
        assert answer.status == 401

    run(tmp_path, story)


_BAD_BODIES: tuple[tuple[bytes, str], ...] = (
    (b"", "body is not JSON"),
    (b"[]", ""),
    (b"null", ""),
    (b'{"name":"x","name":"y"}', "twice"),
    (b'{"name":"x","permissions":["read"],"lifetime":NaN}', "NaN"),
    (b'{"name":"x","permissions":["read"],"lifetime":1e999}', ""),
    (b'{"name":"x","permissions":["read"],"lifetime":true}', "/lifetime"),
    (b'{"name":"x","permissions":["read"],"lifetime":"1"}', "/lifetime"),
    (b'{"name":"x\\u0000","permissions":["read"],"lifetime":1}', ""),
    (b'{"name":"x\\ud800","permissions":["read"],"lifetime":1}', ""),
    (b'{"name":"x","permissions":[],"lifetime":1}', "/permissions"),
    (b'{"name":"x","permissions":["root"],"lifetime":1}', "/permissions"),
    (b'{"name":"x","permissions":["read"],"lifetime":31536001}', "/lifetime"),
    (b'{"name":"x","permissions":["read"],"lifetime":1,"uid":7}', "unknown"),
    (b'{"name":"x","permissions":["read"]}', "/lifetime"),
    (b"[" * 100, "deep"),
    (b'{"name":"' + b"x" * 10_240 + b'","permissions":["read"],"lifetime":1}', "/name"),
    (b"\xff", "UTF-8"),
)


def test_invalid_request_bodies_are_refused_with_the_reason(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        for raw, message in _BAD_BODIES:
            with case(raw, message):
                answer = await owner.call("POST", "/tokens", raw=raw)
                assert answer.status == 400, answer.body
                assert message in answer.body.decode()

    run(tmp_path, story)


_BAD_QUERIES: tuple[str, ...] = (
    "x=1",
    "limit=0",
    "limit=201",
    "limit=%EF%BC%91",
    "limit=1&limit=2",
    "after=x",
    "after=1.",
    "disabled=yes",
    "type=root",
    "q=",
    "q=" + "x" * 81,
    "q=%00",
    "q=%ff",
    "q=%zz",
)


def test_bad_queries_are_refused(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        for query in _BAD_QUERIES:
            with case(query):
                assert (await owner.call("GET", f"/clients?{query}")).status == 400

    run(tmp_path, story)


def test_unknown_api_paths_and_methods_are_refused(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        for path in ("", "/x", "/clients/", "/clients/nobody/x/y", "/../token"):
            assert (await owner.call("GET", path)).status == 404, path
        for unknown in ("nobody", "%00", "\x7f", "é", "x" * 300):
            assert (await owner.call("GET", f"/clients/{unknown}")).status == 404, unknown
        wrong = await owner.call("PUT", "/clients")
        assert (wrong.status, wrong.headers["allow"]) == (405, "GET, HEAD, POST")
        assert wrong.headers["content-type"] == "application/problem+json"

    run(tmp_path, story)
