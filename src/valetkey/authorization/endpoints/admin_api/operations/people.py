"""People: look, make, change, switch off and on, sign out, and roles."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import cast

from valetkey.authorization.deeds.admin.people import PeopleDesk
from valetkey.authorization.deeds.admin.permissions import Permission, require
from valetkey.authorization.deeds.admin.roles import person
from valetkey.authorization.deeds.admin.search import find_people, look_at
from valetkey.authorization.deeds.users import UserRecord
from valetkey.authorization.email.links import Links
from valetkey.authorization.endpoints.admin_api.operation import (
    Call,
    Desk,
    Operation,
    Parameter,
    Told,
)
from valetkey.authorization.endpoints.admin_api.paging import PAGING, limit_of
from valetkey.authorization.endpoints.admin_api.problem import Wrong
from valetkey.authorization.endpoints.admin_api.shapes.people import (
    Holders,
    HolderShown,
    RoleWanted,
    SessionsEnded,
    UserAnswer,
    UserChange,
    UserList,
    UserRead,
    UserWanted,
    changed_record,
    read,
    shown,
)
from valetkey.authorization.endpoints.admin_api.shapes.words import Done, tag_of
from valetkey.authorization.model.account.user import LARGEST_UID, Uid, User
from valetkey.authorization.protocol.register.client_metadata import Fault
from valetkey.authorization.storage.administration.people import Filter
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused

_UID = re.compile(r"[1-9][0-9]{0,15}", re.ASCII)
_LIMIT, _AFTER = PAGING
_QUERY = (
    Parameter(
        "q",
        "The beginning of a name, a user name or an e-mail address; or a uid.",
        {"type": "string", "minLength": 1, "maxLength": 200},
    ),
    Parameter("show", "Only these.", {"type": "string", "enum": [e.value for e in Filter]}),
    _LIMIT,
    replace(_AFTER, schema={"type": "string", "pattern": r"^[0-9a-f]{0,80}\.[0-9]{1,16}$"}),
)


async def _list(desk: Desk, call: Call) -> Told:
    query = call.query
    chosen, after = Filter(query.get("show", "all")), query.get("after", "")
    limit, text = limit_of(query), query.get("q", "")
    found = await desk.store.scan(
        lambda tx: find_people(tx, call.actor, text, chosen, after, limit)
    )
    items = [shown(user) for user in found.users]
    return Told(UserList(items, found.more or None), next=found.more)


async def _read(desk: Desk, call: Call) -> Told:
    uid = _uid(call)
    dossier = await desk.store.scan(lambda tx: look_at(tx, call.actor, uid, call.now))
    told = read(dossier)
    return Told(told, etag=tag_of(told.record))


async def _make(desk: Desk, call: Call) -> Told:
    wanted = cast("UserWanted", call.body)
    record = UserRecord(wanted.username, wanted.email, wanted.name, wanted.email_verified)

    def work(tx: Transaction) -> User | tuple[Fault, ...]:
        require(tx, call.actor, Permission.PEOPLE)
        return desk.foundation.accounts().register(tx, record, call.now)

    return _answer(await desk.store.write(work, done_by=call.actor.done_by))


async def _change(desk: Desk, call: Call) -> Told:
    uid, change = _uid(call), cast("UserChange", call.body)

    def work(tx: Transaction) -> User | tuple[Fault, ...]:
        user = person(tx, uid, call.actor)
        require(tx, call.actor, Permission.PEOPLE, user)
        call.preconditions.check(tag_of(shown(user)))
        record = changed_record(user, change)
        return desk.foundation.accounts().change(tx, user, record, call.now)

    return _answer(await desk.store.write(work, done_by=call.actor.done_by))


def _answer(made: User | tuple[Fault, ...]) -> Told:
    if isinstance(made, tuple):
        raise Wrong(made)
    record = shown(made)
    return Told(UserAnswer(record), etag=tag_of(record))


def _people(desk: Desk) -> PeopleDesk:
    it = desk.foundation
    links = Links(it.issuer, it.keyring, it.runtime.random)
    return PeopleDesk(it.accounts(), it.removal, links)


async def _done(
    desk: Desk, call: Call, act: Callable[[PeopleDesk, Transaction, Uid], bool]
) -> Told:
    uid = _uid(call)
    people = _people(desk)
    changed = await desk.store.write(lambda tx: act(people, tx, uid), done_by=call.actor.done_by)
    return Told(Done(changed))


async def _disable(desk: Desk, call: Call) -> Told:
    return await _done(desk, call, lambda d, tx, uid: d.disable(tx, call.actor, uid, call.now))


async def _enable(desk: Desk, call: Call) -> Told:
    return await _done(desk, call, lambda d, tx, uid: d.enable(tx, call.actor, uid, call.now))


async def _delete(desk: Desk, call: Call) -> Told:
    return await _done(desk, call, lambda d, tx, uid: d.delete(tx, call.actor, uid, call.now))


async def _verify(desk: Desk, call: Call) -> Told:
    return await _done(desk, call, lambda d, tx, uid: d.verify_email(tx, call.actor, uid, call.now))


async def _admit(desk: Desk, call: Call) -> Told:
    return await _done(
        desk, call, lambda d, tx, uid: d.let_register(tx, call.actor, uid, call.now, on=True)
    )


async def _dismiss(desk: Desk, call: Call) -> Told:
    return await _done(
        desk, call, lambda d, tx, uid: d.let_register(tx, call.actor, uid, call.now, on=False)
    )


async def _end_app(desk: Desk, call: Call) -> Told:
    client_id = call.named("client_id")
    return await _done(
        desk, call, lambda d, tx, uid: d.end_app(tx, call.actor, uid, client_id, call.now)
    )


async def _reset_factors(desk: Desk, call: Call) -> Told:
    return await _done(
        desk, call, lambda d, tx, uid: d.reset_factors(tx, call.actor, uid, call.now)
    )


async def _send_reset(desk: Desk, call: Call) -> Told:
    uid, people = _uid(call), _people(desk)
    link = people.links.fresh()
    await desk.store.write(
        lambda tx: people.send_reset(tx, call.actor, uid, link, call.now),
        done_by=call.actor.done_by,
    )
    return Told(Done(changed=True))


async def _sign_out(desk: Desk, call: Call) -> Told:
    uid = _uid(call)
    people = _people(desk)
    ended = await desk.store.write(
        lambda tx: people.sign_out(tx, call.actor, uid, call.now), done_by=call.actor.done_by
    )
    return Told(SessionsEnded(ended))


async def _give_role(desk: Desk, call: Call) -> Told:
    uid, wanted = _uid(call), cast("RoleWanted", call.body)
    roles = desk.foundation.roles
    changed = await desk.store.write(
        lambda tx: roles.change(tx, call.actor, uid, wanted.role, call.now),
        done_by=call.actor.done_by,
    )
    return Told(Done(changed))


async def _holders(desk: Desk, call: Call) -> Told:
    roles = desk.foundation.roles

    def work(tx: Transaction) -> Holders:
        require(tx, call.actor, Permission.READ)
        found = roles.holders(tx)
        return Holders([HolderShown(shown(each.user), each.protected) for each in found])

    return Told(await desk.store.scan(work))


def _uid(call: Call) -> Uid:
    text = call.arguments["uid"]
    if _UID.fullmatch(text) is None or int(text) > LARGEST_UID:
        raise Refused(Refusal(ErrorCode.NOT_FOUND, "there is no such person", "admin.user"))
    return Uid(int(text))


_ONE = "/users/{uid}"

PEOPLE = (
    Operation(
        "list_users",
        "GET",
        "/users",
        Permission.READ,
        "People, newest first, or those that a word finds",
        _list,
        gives=UserList,
        query=_QUERY,
        lists=True,
    ),
    Operation(
        "make_user",
        "POST",
        "/users",
        Permission.PEOPLE,
        "Make an account, without a password",
        _make,
        takes=UserWanted,
        gives=UserAnswer,
        status=201,
        tagged=True,
    ),
    Operation(
        "read_user",
        "GET",
        _ONE,
        Permission.READ,
        "One person: ways to sign in, sessions, connected apps",
        _read,
        gives=UserRead,
        tagged=True,
        refuses=(404,),
    ),
    Operation(
        "change_user",
        "PATCH",
        _ONE,
        Permission.PEOPLE,
        "Change user name, e-mail address or name",
        _change,
        takes=UserChange,
        gives=UserAnswer,
        guarded=True,
        tagged=True,
        refuses=(404, 409),
    ),
    Operation(
        "delete_user",
        "DELETE",
        _ONE,
        Permission.PEOPLE,
        "Delete an account and all that is known of its person but the number",
        _delete,
        description="Apps that only they looked after stay, without an owner.",
        gives=Done,
        refuses=(404, 409),
    ),
    Operation(
        "disable_user",
        "POST",
        f"{_ONE}/disable",
        Permission.PEOPLE,
        "Switch an account off: sessions and grants end",
        _disable,
        gives=Done,
        refuses=(404, 409),
    ),
    Operation(
        "enable_user",
        "POST",
        f"{_ONE}/enable",
        Permission.PEOPLE,
        "Switch it on again; what ended stays ended",
        _enable,
        gives=Done,
        refuses=(404,),
    ),
    Operation(
        "sign_out_user",
        "POST",
        f"{_ONE}/sign-out",
        Permission.RESET,
        "End every session of theirs",
        _sign_out,
        gives=SessionsEnded,
        refuses=(404,),
    ),
    Operation(
        "reset_user_factors",
        "POST",
        f"{_ONE}/reset-factors",
        Permission.RESET,
        "Take everything but the password from the account, and tell them by mail",
        _reset_factors,
        gives=Done,
        refuses=(404,),
    ),
    Operation(
        "send_user_reset",
        "POST",
        f"{_ONE}/send-reset",
        Permission.RESET,
        "Send them a link by which they choose another password",
        _send_reset,
        description="Only to an address that is verified, of an account that is on.",
        gives=Done,
        refuses=(404, 409),
    ),
    Operation(
        "verify_user_email",
        "POST",
        f"{_ONE}/verify-email",
        Permission.PEOPLE,
        "Take it that their address is theirs",
        _verify,
        gives=Done,
        refuses=(404,),
    ),
    Operation(
        "admit_developer",
        "PUT",
        f"{_ONE}/developer",
        Permission.PEOPLE,
        "Let them register apps",
        _admit,
        gives=Done,
        refuses=(404,),
    ),
    Operation(
        "dismiss_developer",
        "DELETE",
        f"{_ONE}/developer",
        Permission.PEOPLE,
        "Let them register no more apps",
        _dismiss,
        gives=Done,
        refuses=(404,),
    ),
    Operation(
        "end_user_app",
        "DELETE",
        f"{_ONE}/apps/{{client_id}}",
        Permission.PEOPLE,
        "End what one app may do for them",
        _end_app,
        gives=Done,
        refuses=(404,),
    ),
    Operation(
        "give_role",
        "PUT",
        f"{_ONE}/role",
        Permission.ROLES,
        "Give a role in place of the one before, or take it",
        _give_role,
        description="The last owner stays one: 409.",
        takes=RoleWanted,
        gives=Done,
        refuses=(404, 409),
    ),
    Operation(
        "list_roles",
        "GET",
        "/roles",
        Permission.READ,
        "Everybody with a role",
        _holders,
        gives=Holders,
    ),
)
