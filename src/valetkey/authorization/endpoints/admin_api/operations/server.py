"""The server: how it goes, its keys, its settings and brand, registration, and the post."""

from collections.abc import Mapping
from typing import cast

from msgspec import UnsetType

from valetkey.authorization.deeds.admin import keys, mail, registration
from valetkey.authorization.deeds.admin.brand import brand_now, change_brand
from valetkey.authorization.deeds.admin.keys import KeyDesk
from valetkey.authorization.deeds.admin.overview import overview
from valetkey.authorization.deeds.admin.permissions import Permission, require
from valetkey.authorization.deeds.admin.registration import (
    FreshInvitation,
    WantedInvitation,
)
from valetkey.authorization.endpoints.admin_api.operation import Call, Desk, Operation, Told
from valetkey.authorization.endpoints.admin_api.operations.events import shown as event_shown
from valetkey.authorization.endpoints.admin_api.problem import Wrong
from valetkey.authorization.endpoints.admin_api.shapes.server import (
    AmountShown,
    BrandChange,
    BrandShown,
    DayShown,
    InvitationMade,
    Invitations,
    InvitationShown,
    InvitationWanted,
    Keys,
    KeyShown,
    OverviewShown,
    PostShown,
    RegistrationShown,
    RotationWanted,
    SettingShown,
    SettingsShown,
    TestSent,
)
from valetkey.authorization.endpoints.admin_api.shapes.words import Done, tag_of
from valetkey.authorization.model.server.brand import BrandField
from valetkey.authorization.site.admin.server.mail import transport_of
from valetkey.authorization.storage.register.invitations import Invitation
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.explain import explain
from valetkey.kernel.moment import Lifetime
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused


async def _overview(desk: Desk, call: Call) -> Told:
    found = await desk.store.scan(lambda tx: overview(tx, call.actor, call.now))
    days = [
        DayShown(
            each.day,
            dict(each.tokens),
            dict(each.errors),
            each.people,
            each.sign_ins,
            each.failed_sign_ins,
        )
        for each in found.days
    ]
    people, clients, grants = found.people, found.clients, found.grants
    return Told(
        OverviewShown(
            AmountShown(people.count, people.more),
            AmountShown(clients.count, clients.more),
            AmountShown(grants.count, grants.more),
            days,
        )
    )


async def _keys(desk: Desk, call: Call) -> Told:
    records = await desk.store.read(lambda tx: keys.look(tx, call.actor, call.now))
    items = [
        KeyShown(
            each.kid,
            each.algorithm,
            each.state(call.now).value,
            each.created_at,
            each.activates_at,
            each.retires_at,
            each.removed_at,
        )
        for each in records
    ]
    return Told(Keys(items))


async def _rotate(desk: Desk, call: Call) -> Told:
    wanted, ring = cast("RotationWanted", call.body), desk.foundation.keys
    if wanted.algorithm is not None and wanted.algorithm not in ring.algorithms:
        raise Refused(
            Refusal(
                ErrorCode.CONFLICT,
                "this server has no keys of that algorithm: see tokens.signing_algorithms",
                "admin.algorithm",
            )
        )
    await KeyDesk(ring).rotate(
        call.actor, call.now, at_once=wanted.at_once, algorithm=wanted.algorithm
    )
    return await _keys(desk, call)


async def _withdraw(desk: Desk, call: Call) -> Told:
    kid = call.named("kid")
    if not await KeyDesk(desk.foundation.keys).withdraw(call.actor, kid, call.now):
        raise Refused(Refusal(ErrorCode.NOT_FOUND, "there is no such key", "admin.key"))
    return Told(Done(changed=True))


async def _settings(desk: Desk, call: Call) -> Told:
    await desk.store.read(lambda tx: require(tx, call.actor, Permission.READ))
    items = [
        SettingShown(
            each.path, each.value, each.origin.value, each.default, each.variable, each.reason
        )
        for each in explain(desk.foundation.settings)
    ]
    return Told(SettingsShown(items))


async def _brand(desk: Desk, call: Call) -> Told:
    base = desk.foundation.settings.brand

    def work(tx: Transaction) -> Mapping[BrandField, str]:
        require(tx, call.actor, Permission.READ)
        return brand_now(tx, base)

    return _told_brand(await desk.store.read(work))


async def _change_brand(desk: Desk, call: Call) -> Told:
    change, base = cast("BrandChange", call.body), desk.foundation.settings.brand
    said: dict[BrandField, str | None] = {}
    for field in BrandField:
        value: str | UnsetType | None = getattr(change, field.value)
        if not isinstance(value, UnsetType):
            said[field] = value

    def work(tx: Transaction) -> Told:
        # Of two who saw the same brand at once, the second is told that it is another.
        tx.brand.take_turn()
        call.preconditions.check(_told_brand(brand_now(tx, base)).etag)
        told = change_brand(tx, call.actor, base, said, call.now)
        if isinstance(told, tuple):
            raise Wrong(told)
        return _told_brand(told)

    return await desk.store.write(work, done_by=call.actor.done_by)


def _told_brand(brand: Mapping[BrandField, str]) -> Told:
    record = BrandShown(**{field.value: brand[field] for field in BrandField})
    return Told(record, etag=tag_of(record))


async def _registration(desk: Desk, call: Call) -> Told:
    await desk.store.read(lambda tx: require(tx, call.actor, Permission.READ))
    settings = desk.foundation.settings
    policy = settings.registration
    return Told(
        RegistrationShown(policy.mode.value, str(settings.portal.who), policy.unused_lifetime)
    )


async def _invitations(desk: Desk, call: Call) -> Told:
    found = await desk.store.read(lambda tx: registration.live(tx, call.actor, call.now))
    return Told(Invitations([_shown(each) for each in found]))


async def _invite(desk: Desk, call: Call) -> Told:
    body, fresh = cast("InvitationWanted", call.body), FreshInvitation.draw(desk.random)
    wanted = WantedInvitation(body.note, body.uses, Lifetime(body.lifetime))
    key = desk.foundation.keyring.fingerprint_key
    made = await desk.store.write(
        lambda tx: registration.invite(tx, call.actor, key, wanted, fresh, call.now),
        done_by=call.actor.done_by,
    )
    if isinstance(made, tuple):
        raise Wrong(made)
    return Told(InvitationMade(fresh.token.reveal(), _shown(made)))


async def _withdraw_invitation(desk: Desk, call: Call) -> Told:
    named = call.named("invitation_id")
    if not await desk.store.write(
        lambda tx: registration.withdraw(tx, call.actor, named, call.now),
        done_by=call.actor.done_by,
    ):
        raise Refused(
            Refusal(ErrorCode.NOT_FOUND, "there is no such invitation", "admin.invitation")
        )
    return Told()


def _shown(each: Invitation) -> InvitationShown:
    return InvitationShown(each.id, each.note, each.uses_left, each.created_at, each.expires_at)


async def _post(desk: Desk, call: Call) -> Told:
    state = await desk.store.scan(lambda tx: mail.look(tx, call.actor))
    return Told(
        PostShown(
            transport_of(desk.foundation.outbox),
            state.waiting,
            [event_shown(each) for each in state.sent],
            [event_shown(each) for each in state.given_up],
        )
    )


async def _test(desk: Desk, call: Call) -> Told:
    user = await desk.store.write(
        lambda tx: mail.send_test(tx, call.actor, desk.foundation.outbox, call.actor.uid, call.now),
        done_by=call.actor.done_by,
    )
    return Told(TestSent(queued=user is not None, to="" if user is None else user.email))


SERVER = (
    Operation(
        "read_overview",
        "GET",
        "/overview",
        Permission.READ,
        "How much there is, and how it goes",
        _overview,
        gives=OverviewShown,
    ),
    Operation(
        "list_keys",
        "GET",
        "/keys",
        Permission.READ,
        "Signing keys: next, current and retiring",
        _keys,
        gives=Keys,
    ),
    Operation(
        "rotate_keys",
        "POST",
        "/keys/rotate",
        Permission.KEYS,
        "Let the next keys sign before their time",
        _rotate,
        description="As soon as everybody can know them, or at once.",
        takes=RotationWanted,
        gives=Keys,
        refuses=(409,),
    ),
    Operation(
        "withdraw_key",
        "POST",
        "/keys/{kid}/withdraw",
        Permission.KEYS,
        "Refuse everything that a key signed, from now on",
        _withdraw,
        gives=Done,
        refuses=(404,),
    ),
    Operation(
        "read_settings",
        "GET",
        "/settings",
        Permission.READ,
        "Every setting, where its value comes from, and why it exists",
        _settings,
        gives=SettingsShown,
    ),
    Operation(
        "read_brand",
        "GET",
        "/brand",
        Permission.READ,
        "Name, colour, logo and links",
        _brand,
        gives=BrandShown,
        tagged=True,
    ),
    Operation(
        "change_brand",
        "PATCH",
        "/brand",
        Permission.SETTINGS,
        "Change them; the pages follow within seconds",
        _change_brand,
        takes=BrandChange,
        gives=BrandShown,
        guarded=True,
        tagged=True,
    ),
    Operation(
        "read_registration",
        "GET",
        "/registration",
        Permission.READ,
        "Who may register apps",
        _registration,
        gives=RegistrationShown,
    ),
    Operation(
        "list_invitations",
        "GET",
        "/invitations",
        Permission.READ,
        "Tokens with which apps register themselves",
        _invitations,
        gives=Invitations,
    ),
    Operation(
        "invite",
        "POST",
        "/invitations",
        Permission.CLIENTS,
        "One more, shown this once",
        _invite,
        takes=InvitationWanted,
        gives=InvitationMade,
        status=201,
    ),
    Operation(
        "withdraw_invitation",
        "DELETE",
        "/invitations/{invitation_id}",
        Permission.CLIENTS,
        "Take one back",
        _withdraw_invitation,
        status=204,
        refuses=(404,),
    ),
    Operation(
        "read_mail",
        "GET",
        "/mail",
        Permission.READ,
        "How the post stands",
        _post,
        gives=PostShown,
    ),
    Operation(
        "test_mail",
        "POST",
        "/mail/test",
        Permission.SETTINGS,
        "Write to whoever made this token",
        _test,
        gives=TestSent,
    ),
)
