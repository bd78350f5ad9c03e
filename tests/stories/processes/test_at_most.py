"""Limits hold, and removals happen once: 64 requests at a time, two processes, on each engine."""

import asyncio
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import requests

from tests.cli.running import valetkey
from tests.stories.processes.serving import PASSWORD, Serving, configure, serving, together
from tests.support.wait import CEILING
from valetkey.authorization.actions.account.factors import (
    FreshCodes,
    add_authenticator,
    add_passkey,
    issue_recovery_codes,
)
from valetkey.authorization.actions.teams import MOST_MEMBERS, Teams, add_member
from valetkey.authorization.actions.users import UserRecord
from valetkey.authorization.app.foundation import Foundation, build_foundation
from valetkey.authorization.authentication.factors import COUNT
from valetkey.authorization.authentication.passkey import MOST, NewPasskey
from valetkey.authorization.model.client import TeamRole
from valetkey.authorization.model.event.event import SYSTEM as SYSTEM_ACTOR
from valetkey.authorization.model.grant import Voucher, VoucherKind
from valetkey.authorization.model.user import Authenticator, Uid, User
from valetkey.authorization.storage.members import TeamInvitation
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.load import load
from valetkey.config.settings import Settings
from valetkey.kernel.moment import hours, later
from valetkey.kernel.runtime import SYSTEM
from valetkey.kernel.secret import Fingerprint, fresh_id
from valetkey.testing.browser import Page, UserAgent

T = TypeVar("T")
_PATIENCE = CEILING
_PERMISSIONS = ("read", "clients", "keys", "people", "reset", "settings", "roles")
_TOKENS = 50
_WAITING = 20
_APPS = 5


@dataclass
class Console:
    """The admin API in the hands of an owner."""

    url: str
    token: str

    def ask(self, method: str, path: str, body: object = None) -> requests.Response:
        return requests.request(
            method,
            f"{self.url}/admin/api/v1{path}",
            json=body,
            headers={"authorization": f"Bearer {self.token}"},
            timeout=_PATIENCE,
        )

    def count(self, path: str) -> int:
        """How many items it lists that work."""
        items = self.ask("GET", f"{path}?limit=200").json()["items"]
        return sum(1 for item in items if item.get("works", True))


def _posts(person: UserAgent, page: Page, button: str) -> Callable[[dict[str, str]], int]:
    """Presses this button, as often as wanted, in the same browser."""
    form = page.forms[next(control.form for control in page.buttons if control.id == button)]
    fields = {**dict(form.fields), **{n: v for n, v, on in form.boxes if on}}
    pressed = next(control for control in page.buttons if control.id == button)
    if pressed.name:
        fields[pressed.name] = pressed.value
    home = page.url.split("/", 3)
    origin = "/".join(home[:3])
    cookies = dict(person.cookies)

    def post(entries: dict[str, str]) -> int:
        answer = requests.post(
            f"{origin}{form.action}" if form.action.startswith("/") else form.action,
            data={**fields, **entries},
            cookies=cookies,
            headers={"origin": origin},
            allow_redirects=False,
            timeout=_PATIENCE,
        )
        return answer.status_code

    return post


def _cli(here: Path, *arguments: str) -> str:
    done = valetkey(*arguments, "--config", "valetkey.toml", here=here)
    assert done.code == 0, done.out + done.err
    return done.out


def test_parallel_requests_never_exceed_a_limit(tmp_path: Path, database_url: str) -> None:
    config = configure(tmp_path, database_url, workers=2)
    portal = f'[portal]\nwho = "everyone"\napps_per_person = {_APPS}\n'
    config.write_text(config.read_text() + portal)
    _cli(tmp_path, "user", "role", "ada", "owner")
    names = [word for name in _PERMISSIONS for word in ("--permission", name)]
    made = _cli(tmp_path, "admin-token", "create", "--for", "ada", "--name", "x", *names, "--json")
    with serving(tmp_path, database_url, workers=2) as running:
        console = Console(running.auth, json.loads(made)["token"])
        _secrets_of_a_client(console)
        _api_tokens(console)
        client_id = _apps_of_a_developer(running)
        _invitations_into_a_team(running, client_id)
        _removals(running, console, client_id, tmp_path)
    asyncio.run(_in_two_pools(load(config, {}), client_id))


def _secrets_of_a_client(console: Console) -> None:
    codes = together(
        lambda: console.ask("POST", "/clients/printer/secrets", {"others_live": 3600}).status_code
    )
    assert codes.count(201) == 1, sorted(codes)
    assert set(codes) == {201, 409}
    secrets = console.ask("GET", "/clients/printer").json()["record"]["secrets"]
    assert len(secrets) == 2, secrets


def _api_tokens(console: Console) -> None:
    body = {"name": "more", "permissions": ["read"], "lifetime": 3600}
    codes = together(lambda: console.ask("POST", "/tokens", body).status_code)
    assert codes.count(201) == _TOKENS - 1, sorted(codes)
    assert console.count("/tokens") == _TOKENS


def _signed_in(running: Serving) -> UserAgent:
    ada = UserAgent(running.auth)
    ada.sign_in(ada.open(f"{running.auth}/oauth/sign-in"), "ada", PASSWORD)
    return ada


def _apps_of_a_developer(running: Serving) -> str:
    ada = _signed_in(running)
    pages = [ada.open(f"{running.auth}/developer/new?kind=machine") for _ in range(24)]
    waiting = [_posts(ada, page, "do") for page in pages]
    together(lambda: waiting.pop()({"name": "Robot", "profile": "modern"}), times=24)
    listed = ada.open(f"{running.auth}/developer").body
    apps: set[str] = set(re.findall(r"/developer/apps/([\w-]+)", listed))
    assert len(apps) == _APPS, apps
    return apps.pop()


def _invitations_into_a_team(running: Serving, client_id: str) -> None:
    ada = _signed_in(running)
    page = ada.open(f"{running.auth}/developer/apps/{client_id}/team")
    invite, names = _posts(ada, page, "invite"), iter(range(64))
    codes = together(lambda: invite({"do": "invite", "invited": f"guest{next(names)}"}))
    assert codes.count(303) == _WAITING, sorted(codes)


def _removals(running: Serving, console: Console, client_id: str, here: Path) -> None:
    """Of 64 who remove the same thing one does, one event says so, and the others are answered."""
    made = console.ask("POST", "/users", {"username": "bob", "email": "bob@example.com"})
    bob = made.json()["record"]["uid"]
    _cli(here, "client", "owner", client_id, "bob")
    ada = _signed_in(running)
    page = ada.open(f"{running.auth}/developer/apps/{client_id}/team/remove?member={bob}")
    remove_member = _posts(ada, page, "remove")
    assert running.redeem(running.code("phone"), "phone").status_code == 200

    def once(event: str, about: str, remove: Callable[[], int]) -> None:
        codes = together(remove)
        assert max(codes) < 500, sorted(codes)
        events = console.ask("GET", f"/events?name={event}&{about}").json()["items"]
        assert len(events) == 1, (event, len(events), sorted(codes))

    def asks(method: str, path: str) -> Callable[[], int]:
        return lambda: console.ask(method, path).status_code

    once("team_member.removed", f"uid={bob}", lambda: remove_member({}))
    once("grant.revoked", "client_id=phone", asks("DELETE", "/users/1001/apps/phone"))
    console.ask("POST", "/users/1001/sign-out")
    ada = _signed_in(running)
    before = len(console.ask("GET", "/events?name=session.ended&limit=200").json()["items"])
    assert max(together(asks("POST", "/users/1001/sign-out"))) < 500
    after = len(console.ask("GET", "/events?name=session.ended&limit=200").json()["items"])
    assert after == before + 1
    once("user.removed", f"uid={bob}", asks("DELETE", f"/users/{bob}"))
    once("client.removed", "client_id=phone", asks("DELETE", "/clients/phone"))


async def _in_two_pools(settings: Settings, client_id: str) -> None:
    """What needs a device or many people, with a connection pool for each process's."""
    pools = [build_foundation(settings, SYSTEM, {}) for _ in range(2)]
    try:
        await _factors(pools)
        await _members(pools, client_id)
    finally:
        for pool in pools:
            await pool.store.engine.close()


async def _all(pools: Sequence[Foundation], works: Sequence[Callable[[Transaction], T]]) -> list[T]:
    stores = [pool.store for pool in pools]
    return await asyncio.gather(
        *(stores[number % 2].write(work, done_by=SYSTEM_ACTOR) for number, work in enumerate(works))
    )


async def _factors(pools: Sequence[Foundation]) -> None:
    now, key = SYSTEM.now(), pools[0].keyring.fingerprint_key
    ada = await pools[0].store.read(lambda tx: tx.users.find(Uid(1001)))
    assert ada is not None

    def passkey(number: int) -> Callable[[Transaction], bool]:
        once = Voucher(
            VoucherKind.CHALLENGE, Fingerprint(f"{number}"), "", "", "", later(now, hours(1))
        )
        new = NewPasskey(f"handle{number}", b"", synced=False, counter=0, once=once)
        fresh, name = FreshCodes.draw(SYSTEM.random), fresh_id("cr", SYSTEM.random)
        return lambda tx: add_passkey(tx, ada, "x", new, name, fresh, key, now) is not None

    def codes(_: int) -> Callable[[Transaction], bool]:
        fresh = FreshCodes.draw(SYSTEM.random)
        return lambda tx: bool(issue_recovery_codes(tx, ada, fresh, key, now))

    def authenticator(_: int) -> Callable[[Transaction], bool]:
        fresh = FreshCodes.draw(SYSTEM.random)
        app = Authenticator(fresh_id("cr", SYSTEM.random), ada.uid, "", now, None)
        return lambda tx: add_authenticator(tx, ada, app, 0, fresh, key, now) is not None

    assert (await _all(pools, [passkey(n) for n in range(64)])).count(True) == MOST
    for _ in range(20):
        # Two at a time: of many, the last would hide what those before it left.
        assert all(await _all(pools, [codes(n) for n in range(2)]))
        left = await pools[0].store.read(lambda tx: tx.credentials.recovery_codes_of(ada.uid).left)
        assert left == COUNT
    assert (await _all(pools, [authenticator(n) for n in range(64)])).count(True) == 1


async def _members(pools: Sequence[Foundation], client_id: str) -> None:
    """Sixty people accept at once, where an operator left room for less than were invited."""
    now, accounts = SYSTEM.now(), pools[0].accounts()
    teams = Teams(pools[0].keyring.fingerprint_key, pools[0].outbox, pools[0].issuer)

    def settle(tx: Transaction) -> list[User]:
        records = [UserRecord(f"guest{n}", f"guest{n}@example.com") for n in range(64)]
        made = [accounts.register(tx, record, now) for record in records]
        people = [user for user in made if isinstance(user, User)]
        assert len(people) == 64
        for person in people[_WAITING : _WAITING + 35]:
            add_member(tx, client_id, person.uid, TeamRole.MEMBER, now)
        for invitation in tx.team_invitations.to(client_id, now):
            tx.team_invitations.end(invitation.id, client_id, now)
        for person in people[:_WAITING]:
            tx.team_invitations.issue(
                TeamInvitation(
                    id=f"ti_{person.uid}",
                    token=Fingerprint(f"{person.uid}"),
                    client_id=client_id,
                    role=TeamRole.MEMBER,
                    invited=person.username,
                    email_key="",
                    uid=person.uid,
                    invited_by=Uid(1001),
                    created_at=now,
                    expires_at=later(now, hours(1)),
                )
            )
        return people[:_WAITING]

    def accepting(user: User) -> Callable[[Transaction], bool]:
        return lambda tx: teams.accept(tx, f"ti_{user.uid}", user, "", now) is not None

    guests = await pools[0].store.write(settle, done_by=SYSTEM_ACTOR)
    came = await _all(pools, [accepting(guest) for guest in guests])
    team = await pools[0].store.read(lambda tx: tx.members.team(client_id))
    assert len(team) == MOST_MEMBERS
    assert came.count(True) == MOST_MEMBERS - 36
