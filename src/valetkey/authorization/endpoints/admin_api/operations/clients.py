"""Clients: look, register, change, switch, verify, and their secrets."""

from typing import cast

from valetkey.authorization.deeds.admin import clients
from valetkey.authorization.deeds.admin.clients import ClientDesk, FreshClient, WithSecret
from valetkey.authorization.deeds.admin.permissions import Permission
from valetkey.authorization.deeds.sectors import Sectors
from valetkey.authorization.endpoints.admin_api.operation import (
    Call,
    Desk,
    Operation,
    Parameter,
    Told,
)
from valetkey.authorization.endpoints.admin_api.paging import PAGING, cursor, limit_of, place_of
from valetkey.authorization.endpoints.admin_api.problem import Wrong
from valetkey.authorization.endpoints.admin_api.reading import flag
from valetkey.authorization.endpoints.admin_api.shapes.clients import (
    ClientChange,
    ClientList,
    ClientMade,
    ClientRead,
    ClientShown,
    ClientWanted,
    changed_metadata,
    read,
    shown,
    summary,
    wanted_metadata,
)
from valetkey.authorization.endpoints.admin_api.shapes.words import Done, tag_of
from valetkey.authorization.model.register.client import Client, ClientType, GrantTypeName
from valetkey.authorization.model.register.profile import ProfileName
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.authorization.storage.administration.client_search import ClientFilter
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused

DOOR = "admin"
_YES_NO = {"type": "boolean"}
_FILTERS = (
    Parameter(
        "q",
        "A part of the name, or how the client_id begins.",
        {"type": "string", "minLength": 1, "maxLength": 80},
    ),
    Parameter("type", "Only these.", {"type": "string", "enum": [e.value for e in ClientType]}),
    Parameter("profile", "Only these.", {"type": "string", "enum": [e.value for e in ProfileName]}),
    Parameter("disabled", "Only those switched off, or only the others.", _YES_NO),
    Parameter("verified", "Only those with the mark, or only the others.", _YES_NO),
    Parameter("self_registered", "Only those that registered themselves, or others.", _YES_NO),
    Parameter("legacy", "Only those with a grant of old, or only the others.", _YES_NO),
)


def desk_of(desk: Desk) -> ClientDesk:
    """Who changes the register."""
    return ClientDesk(desk.foundation.registrar(DOOR))


async def _list(desk: Desk, call: Call) -> Told:
    query = call.query
    wanted = ClientFilter(
        text=query.get("q", ""),
        type=query.get("type"),
        profile=query.get("profile"),
        disabled=flag(query, "disabled"),
        verified=flag(query, "verified"),
        self_registered=flag(query, "self_registered"),
        legacy=flag(query, "legacy"),
    )
    limit, before = limit_of(query), place_of(query)
    found = await desk.store.scan(lambda tx: clients.search(tx, call.actor, wanted, before, limit))
    after = cursor(found.after)
    return Told(ClientList([summary(line) for line in found.lines], after or None), next=after)


async def _read(desk: Desk, call: Call) -> Told:
    client_id = call.named("client_id")
    held = await desk.store.scan(lambda tx: clients.look(tx, call.actor, client_id, call.now))
    told = read(held, call.now)
    return Told(told, etag=tag_of(told.record))


async def _register(desk: Desk, call: Call) -> Told:
    metadata = wanted_metadata(cast("ClientWanted", call.body))
    await _check_sector(desk, metadata)
    fresh = FreshClient.draw(desk.random)
    made = await desk.store.write(
        lambda tx: desk_of(desk).register(tx, call.actor, metadata, fresh, call.now),
        done_by=call.actor.done_by,
    )
    if isinstance(made, tuple):
        raise Wrong(made)
    return _made(made, call)


async def _change(desk: Desk, call: Call) -> Told:
    client_id, change = call.named("client_id"), cast("ClientChange", call.body)
    fresh = FreshClient.draw(desk.random)

    def make(client: Client) -> ClientMetadata:
        call.preconditions.check(tag_of(shown(client, call.now)))
        return changed_metadata(client, change)

    made = await desk.store.write(
        lambda tx: desk_of(desk).change(tx, call.actor, client_id, make, fresh, call.now),
        done_by=call.actor.done_by,
    )
    if isinstance(made, tuple):
        raise Wrong(made)
    return _made(made, call)


def _made(made: WithSecret, call: Call) -> Told:
    record = shown(made.client, call.now)
    secret = None if made.secret is None else made.secret.reveal()
    return Told(ClientMade(record, secret), etag=tag_of(record))


async def _switch(desk: Desk, call: Call, *, on: bool) -> Told:
    client_id = call.named("client_id")
    changed = await desk.store.write(
        lambda tx: desk_of(desk).switch(tx, call.actor, client_id, on=on, now=call.now),
        done_by=call.actor.done_by,
    )
    return Told(Done(changed))


async def _disable(desk: Desk, call: Call) -> Told:
    return await _switch(desk, call, on=False)


async def _enable(desk: Desk, call: Call) -> Told:
    return await _switch(desk, call, on=True)


async def _mark(desk: Desk, call: Call, *, on: bool) -> Told:
    client_id = call.named("client_id")
    changed = await desk.store.write(
        lambda tx: desk_of(desk).verify(tx, call.actor, client_id, on=on, now=call.now),
        done_by=call.actor.done_by,
    )
    return Told(Done(changed))


async def _verify(desk: Desk, call: Call) -> Told:
    return await _mark(desk, call, on=True)


async def _unverify(desk: Desk, call: Call) -> Told:
    return await _mark(desk, call, on=False)


async def _allow(desk: Desk, call: Call, *, on: bool) -> Told:
    client_id, name = call.named("client_id"), call.named("grant_type")
    grant_type = next((each for each in clients.LEGACY if each.value == name), None)
    if grant_type is None:
        raise Refused(
            Refusal(
                ErrorCode.NOT_FOUND,
                "only the grants implicit and password are switched so",
                "admin.grant_type",
            )
        )

    def work(tx: Transaction, wanted: GrantTypeName = grant_type) -> object:
        return desk_of(desk).allow(tx, call.actor, client_id, wanted, on=on, now=call.now)

    client = await desk.store.write(work, done_by=call.actor.done_by)
    if not isinstance(client, Client):
        raise Wrong(cast("clients.Faults", client))
    record = shown(client, call.now)
    return Told(record, etag=tag_of(record))


async def _allow_legacy(desk: Desk, call: Call) -> Told:
    return await _allow(desk, call, on=True)


async def _end_legacy(desk: Desk, call: Call) -> Told:
    return await _allow(desk, call, on=False)


async def _delete(desk: Desk, call: Call) -> Told:
    client_id = call.named("client_id")
    await desk.store.write(
        lambda tx: desk_of(desk).delete(tx, call.actor, client_id, call.now),
        done_by=call.actor.done_by,
    )
    return Told()


async def _adopt(desk: Desk, call: Call) -> Told:
    client_id = call.named("client_id")
    changed = await desk.store.write(
        lambda tx: desk_of(desk).adopt(tx, call.actor, client_id, call.now),
        done_by=call.actor.done_by,
    )
    return Told(Done(changed))


async def _check_sector(desk: Desk, metadata: ClientMetadata) -> None:
    if faults := await Sectors(desk.foundation.outgoing).faults(metadata):
        raise Wrong(faults)


_ONE = "/clients/{client_id}"

CLIENTS = (
    Operation(
        "list_clients",
        "GET",
        "/clients",
        Permission.READ,
        "Clients, newest first",
        _list,
        description="A search looks at 2,000 clients at a time: follow `next` while there is one.",
        gives=ClientList,
        query=(*_FILTERS, *PAGING),
        lists=True,
    ),
    Operation(
        "register_client",
        "POST",
        "/clients",
        Permission.CLIENTS,
        "Register a client; its secret is shown this once",
        _register,
        takes=ClientWanted,
        gives=ClientMade,
        status=201,
        tagged=True,
    ),
    Operation(
        "read_client",
        "GET",
        _ONE,
        Permission.READ,
        "One client, its team, and how many people it would fail",
        _read,
        gives=ClientRead,
        tagged=True,
        refuses=(404,),
    ),
    Operation(
        "change_client",
        "PATCH",
        _ONE,
        Permission.CLIENTS,
        "Change what a client registered",
        _change,
        description="A secret that it needs from now on is made and shown this once.",
        takes=ClientChange,
        gives=ClientMade,
        guarded=True,
        tagged=True,
        refuses=(404,),
    ),
    Operation(
        "delete_client",
        "DELETE",
        _ONE,
        Permission.CLIENTS,
        "Delete a client and everything it holds; its id is never given again",
        _delete,
        status=204,
        refuses=(404,),
    ),
    Operation(
        "adopt_client",
        "POST",
        f"{_ONE}/adopt",
        Permission.CLIENTS,
        "Make one that registered itself your own",
        _adopt,
        gives=Done,
        refuses=(404,),
    ),
    Operation(
        "disable_client",
        "POST",
        f"{_ONE}/disable",
        Permission.CLIENTS,
        "Switch a client off: everything it holds ends within seconds",
        _disable,
        gives=Done,
        refuses=(404,),
    ),
    Operation(
        "enable_client",
        "POST",
        f"{_ONE}/enable",
        Permission.CLIENTS,
        "Switch a client on again; what ended stays ended",
        _enable,
        gives=Done,
        refuses=(404,),
    ),
    Operation(
        "verify_client",
        "PUT",
        f"{_ONE}/verified",
        Permission.CLIENTS,
        "Let people read that you know who is behind it",
        _verify,
        gives=Done,
        refuses=(404,),
    ),
    Operation(
        "unverify_client",
        "DELETE",
        f"{_ONE}/verified",
        Permission.CLIENTS,
        "Let them read so no more",
        _unverify,
        gives=Done,
        refuses=(404,),
    ),
    Operation(
        "allow_legacy_grant",
        "PUT",
        f"{_ONE}/legacy/{{grant_type}}",
        Permission.CLIENTS,
        "Switch the implicit or the password grant on",
        _allow_legacy,
        description="Needs the profile classic; `password` a confidential client.",
        gives=ClientShown,
        tagged=True,
        refuses=(404,),
    ),
    Operation(
        "end_legacy_grant",
        "DELETE",
        f"{_ONE}/legacy/{{grant_type}}",
        Permission.CLIENTS,
        "Switch it off",
        _end_legacy,
        gives=ClientShown,
        tagged=True,
        refuses=(404,),
    ),
)
