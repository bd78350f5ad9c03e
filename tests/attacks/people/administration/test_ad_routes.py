"""AD: every route is closed to all but those whom it is for; each is called as each kind of person.

A new route is as closed as its area, or it fails here until somebody says what it needs.
"""

from base64 import b64encode
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.attacks.people.administration.doors import (
    PROGRAM_NEEDS,
    Door,
    Need,
    concrete,
    door_of,
)
from tests.support.harness import ADA, CREDENTIAL, SECRET, Harness, run
from tests.support.plain_browser import Answer, Browser
from valetkey.authorization.actions.admin import tokens as api_tokens
from valetkey.authorization.actions.admin.permissions import (
    MAY,
    CommandLine,
    Permission,
    permissions_of,
)
from valetkey.authorization.actions.users import UserRecord
from valetkey.authorization.features import OPERATIONS
from valetkey.authorization.model.client import Membership, TeamRole
from valetkey.authorization.model.user import Role, Uid
from valetkey.authorization.operations.operation import PREFIX
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import days
from valetkey.kernel.runtime import SYSTEM
from valetkey.kernel.secret import Prefix, fresh_secret
from valetkey.web.router import Body, Route

WORD = "a good long password"
PEOPLE = {
    "bob": Uid(1002),
    "member": Uid(1003),
    **{r.value: Uid(2001 + n) for n, r in enumerate(Role)},
}
"""bob has nothing; member is in the team of `web`; the others have the role of their name."""

_HOST, _SCHEME = "localhost:8400", "http"


def _username(name: str) -> str:
    # The names of roles are nobody's.
    return f"the-{name}"


def routes(it: Harness) -> Sequence[Route]:
    return it.app.routes


async def settle(it: Harness) -> dict[str, Browser]:
    """Everybody, each signed in in a browser of their own; `stranger` is nobody."""
    await it.client("web", grant_types=("authorization_code", "client_credentials"))
    await it.password(WORD)
    hashed = await it.read(lambda tx: tx.users.password_hash(ADA))
    assert hashed is not None
    accounts = it.foundation.accounts()

    def work(tx: Transaction) -> None:
        for name, uid in PEOPLE.items():
            record = UserRecord(_username(name), f"{name}@example.com")
            accounts.register(tx, record, it.clock.now, uid=uid, password_hash=hashed)
            if name in set(Role):
                tx.user_directory.set_role(uid, Role(name), it.clock.now)
        tx.members.add(Membership("web", PEOPLE["member"], TeamRole.OWNER, it.clock.now))

    await it.write(work)
    browsers = {"stranger": Browser(it.app, host=_HOST, scheme=_SCHEME)}
    for name in PEOPLE:
        browser = Browser(it.app, host=_HOST, scheme=_SCHEME)
        page = await browser.get("/oauth/sign-in")
        answer = await browser.submit(page, "sign-in", username=_username(name), password=WORD)
        assert answer.location == "/", answer.body
        if name in set(Role):
            assert (await browser.get("/admin")).status == 200
        browsers[name] = browser
    return browsers


def to_sign_in(answer: Answer) -> bool:
    return answer.status == 303 and answer.location.startswith("/oauth/sign-in")


BOUNDARY = "x"
EMPTY = b"--x--\r\n"
WRONG_TOKEN = b'--x\r\nContent-Disposition: form-data; name="csrf"\r\n\r\nx\r\n' + EMPTY


def refused(answer: Answer) -> bool:
    """Not there, not theirs, or nobody is signed in."""
    return answer.status in {403, 404} or to_sign_in(answer)


def shown(answer: Answer) -> bool:
    """A page, or the way to one that belongs to it."""
    return answer.status == 200 or (answer.status == 303 and not to_sign_in(answer))


async def sent(browser: Browser, route: Route, path: str, *, csrf: bool = False) -> Answer:
    """Send the route's form empty, or with a wrong token alone."""
    if route.body is not Body.UPLOAD:
        return await browser.post(path, {"csrf": "x"} if csrf else {})
    headers = {"content-type": f"multipart/form-data; boundary={BOUNDARY}"}
    return await browser.send("POST", path, WRONG_TOKEN if csrf else EMPTY, headers)


def of_need(it: Harness, *needs: Need) -> Iterator[tuple[str, Route, Door]]:
    for route in routes(it):
        door = door_of(route.path)
        if door is not None and door.need in needs:
            yield concrete(route.path, door), route, door


def test_ad_default_deny_every_route_has_an_access_rule(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        there = {route.path for route in routes(it)}
        assert not [path for path in there if door_of(path) is None]

    run(tmp_path, story)


def test_ad_user_pages_require_sign_in_and_forms_a_valid_csrf_token(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browsers = await settle(it)
        stranger, bob = browsers["stranger"], browsers["bob"]
        seen = 0
        for path, route, door in of_need(it, Need.SIGNED_IN, Need.DEVELOPER):
            if "GET" in route.methods:
                assert to_sign_in(await stranger.get(path)), path
                is_shown = shown(await bob.get(path))
                assert is_shown or not door.shown or door.need is Need.DEVELOPER, path
                seen += is_shown
            if "POST" in route.methods:
                answers = [await sent(bob, route, path, csrf=csrf) for csrf in (False, True)]
                assert refused(await sent(stranger, route, path)), path
                assert {answer.status for answer in answers} <= {403, 404}, path
        assert seen >= 10

    run(tmp_path, story)


def test_ad_03_app_pages_are_found_by_team_members_only(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browsers = await settle(it)
        seen = 0
        for path, route, _ in of_need(it, Need.MEMBER):
            if "GET" in route.methods:
                assert to_sign_in(await browsers["stranger"].get(path)), path
                # Not even an owner of the server is in a team by that.
                for name in ("bob", "owner", "administrator"):
                    assert (await browsers[name].get(path)).status == 404, (name, path)
                seen += shown(await browsers["member"].get(path))
            if "POST" in route.methods:
                assert refused(await browsers["stranger"].post(path, {})), path
                for name in ("bob", "owner"):
                    assert (await browsers[name].post(path, {})).status in {403, 404}, path
                assert (await browsers["member"].post(path, {})).status in {403, 404}, path
        assert seen >= 3

    run(tmp_path, story)


@pytest.mark.parametrize("role", list(Role))
def test_ad_admin_routes_require_a_role_with_their_permission(role: Role, tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browsers = await settle(it)
        browser, may = browsers[role.value], MAY[role]
        seen = 0
        for path, route, door in of_need(it, Need.ROLE):
            if "GET" in route.methods:
                assert to_sign_in(await browsers["stranger"].get(path)), path
                for name in ("bob", "member"):
                    assert (await browsers[name].get(path)).status == 404, (name, path)
                answer = await browser.get(path)
                if door.permission not in may:
                    assert answer.status == 404, path
                else:
                    assert shown(answer) or not door.shown, (path, answer.status)
                    seen += shown(answer)
            if "POST" in route.methods:
                assert to_sign_in(await sent(browsers["stranger"], route, path)), path
                for name in ("bob", "member"):
                    assert (await sent(browsers[name], route, path)).status == 404, (name, path)
                answer = await sent(browser, route, path)
                assert answer.status == (403 if door.form in may else 404), (path, answer.status)
        assert seen >= 5

    run(tmp_path, story)


def test_ad_owner_routes_are_closed_without_the_owners_link(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browsers = await settle(it)
        for path, route, _ in of_need(it, Need.LINK):
            for name in ("stranger", "bob", "owner"):
                if "GET" in route.methods:
                    assert (await browsers[name].get(path)).status == 404, path
                assert (await browsers[name].post(path, {})).status in {303, 403, 404}, path
        assert len(await it.read(lambda tx: tx.user_directory.with_roles(99))) == len(Role)

    run(tmp_path, story)


def test_ad_client_and_resource_server_endpoints_require_their_credentials(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browsers = await settle(it)
        for path, route, door in of_need(it, Need.CLIENT, Need.RESOURCE_SERVER, Need.BEARER):
            for method in sorted(set(route.methods) & {"GET", "POST"}):
                # Whoever is signed in is nobody here.
                for name in ("stranger", "owner"):
                    headers = {"content-type": f"application/{_type(route)}"}
                    answer = await browsers[name].send(method, path, b"", headers)
                    assert answer.status in {400, 401}, (path, name, answer.status)
                if door.need is Need.RESOURCE_SERVER:
                    by_client = await it.call(method, path, authorization=_basic("web", SECRET))
                    assert by_client.status in {401, 403}, path
                    own = await it.call(
                        method, path, authorization=_basic("resource-server", CREDENTIAL)
                    )
                    assert own.status not in {401, 403}, (path, own.body)
        for path, route, _ in of_need(it, Need.REGISTRATION):
            for method in sorted(set(route.methods) - {"OPTIONS"}):
                headers = {"content-type": "application/json"}
                answer = await browsers["owner"].send(method, path, b"{}", headers)
                assert answer.status in {401, 403, 404}, (path, method, answer.status)

    run(tmp_path, story)


def test_ad_09_the_admin_api_needs_a_token_with_the_permission_of_each_operation(
    tmp_path: Path,
) -> None:
    async def story(it: Harness) -> None:
        browsers = await settle(it)
        key = it.foundation.keyring.fingerprint_key

        async def token(*permissions: str, of: str = "owner") -> str:
            secret = fresh_secret(Prefix.API_TOKEN, SYSTEM.random)
            name = f"at_{of}_{'_'.join(permissions)}"
            fresh = api_tokens.FreshToken(name, secret)
            wish = api_tokens.WantedToken("x", permissions, days(1), PEOPLE[of])
            made = await it.write(
                lambda tx: api_tokens.issue(tx, CommandLine(), key, wish, fresh, it.clock.now)
            )
            assert not isinstance(made, tuple), made
            return secret.reveal()

        every = [permission.value for permission in Permission]
        tokens = {
            lacking: await token(*(p for p in every if p != lacking)) for lacking in sorted(every)
        }
        documented = {f"{PREFIX}{api_operation.path}" for api_operation in OPERATIONS}
        served = {path for path, _, _ in _programs(it)}
        assert served == documented
        unreviewed = {
            f"{api_operation.method} {api_operation.path}" for api_operation in OPERATIONS
        } ^ PROGRAM_NEEDS.keys()
        assert not unreviewed, "name the permission of each operation in PROGRAM_NEEDS"
        for operation in OPERATIONS:
            needed = PROGRAM_NEEDS[f"{operation.method} {operation.path}"]
            path = concrete(f"{PREFIX}{operation.path}", Door(Need.PROGRAM))
            body = b"{}" if operation.input else b""
            for name in ("stranger", "owner"):
                headers = {"content-type": "application/json"}
                answer = await browsers[name].send(operation.method, path, body, headers)
                assert answer.status == 401, (operation.id, name)
            refusal = await it.call(
                operation.method,
                path,
                body,
                content_type="application/json" if body else "",
                authorization=f"Bearer {tokens[needed.value]}",
            )
            assert refusal.status == 403, (operation.id, refusal.body)

    run(tmp_path, story)


def test_only_owners_give_roles_and_auditors_reset_nothing() -> None:
    # The owner alone gives roles; support and auditors change nothing but what they reset.
    assert [r for r in Role if permissions_of(r).allow(Permission.ROLES)] == [Role.OWNER]
    assert [r for r in Role if permissions_of(r).allow(Permission.RESET)] == [
        Role.OWNER,
        Role.ADMINISTRATOR,
        Role.SUPPORT,
    ]


def _programs(it: Harness) -> Iterator[tuple[str, Route, Door]]:
    for route in routes(it):
        door = door_of(route.path)
        if door is not None and door.need is Need.PROGRAM:
            yield route.path, route, door


def _type(route: Route) -> str:
    return "x-www-form-urlencoded" if route.body.value == "form" else "json"


def _basic(client_id: str, secret: str) -> str:
    return "Basic " + b64encode(f"{client_id}:{secret}".encode()).decode()
