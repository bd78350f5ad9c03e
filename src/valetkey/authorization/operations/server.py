"""Operations on the server: overview, keys, settings, brand, mail."""

from collections.abc import Callable, Mapping

from msgspec import UnsetType

from valetkey.authorization.actions.admin import server
from valetkey.authorization.actions.admin.overview import overview
from valetkey.authorization.actions.admin.permissions import Permission, require
from valetkey.authorization.actions.admin.server import current_brand
from valetkey.authorization.model.event.administration import (
    BrandChanged,
    SigningKeyRetired,
    SigningKeyWithdrawn,
)
from valetkey.authorization.operations.command import Command
from valetkey.authorization.operations.events import shown as event_shown
from valetkey.authorization.operations.operation import (
    Button,
    ButtonField,
    Call,
    Operation,
    Result,
    reads,
    unchecked_write,
    writes,
)
from valetkey.authorization.operations.records import Done, tag_of
from valetkey.authorization.operations.server_records import (
    AmountShown,
    BrandChange,
    BrandShown,
    DayShown,
    EmailQueueState,
    Keys,
    KeyShown,
    OverviewShown,
    RotationWanted,
    TestSent,
)
from valetkey.authorization.protocol.register.faults import MetadataError
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.sections.portal import BrandField
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.words import translatable


def read_overview(tx: Transaction, call: Call) -> OverviewShown:
    """Count users, clients and grants, and report the last days."""
    found = overview(tx, call.actor, call.now)
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
    return OverviewShown(
        AmountShown(people.count, people.more),
        AmountShown(clients.count, clients.more),
        AmountShown(grants.count, grants.more),
        days,
    )


def list_keys(tx: Transaction, call: Call) -> Keys:
    """List the published signing keys."""
    return Keys(
        [
            KeyShown(
                each.kid,
                each.algorithm,
                each.state(call.now).value,
                each.created_at,
                each.activates_at,
                each.retires_at,
                each.removed_at,
            )
            for each in server.signing_keys(tx, call.actor, call.now)
        ]
    )


async def rotate_keys(call: Call) -> Result:
    """Rotate keys: once every verifier can know the next ones, or at once."""
    wanted, ring = call.input(RotationWanted), call.services.keys
    if wanted.algorithm is not None and wanted.algorithm not in ring.algorithms:
        raise Refused.because(
            ErrorCode.CONFLICT,
            "this server has no keys of that algorithm: see tokens.signing_algorithms",
            "admin.algorithm",
        )
    await ring.rotate(
        call.now,
        at_once=wanted.at_once,
        algorithm=wanted.algorithm,
        allowed=_allowed(call),
        done_by=call.actor.done_by,
    )
    return Result(await call.services.store.read(lambda tx: list_keys(tx, call)))


async def withdraw_key(call: Call) -> Result:
    """Withdraw a key: everything that it signed is refused from now on."""
    kid = call.named("kid")
    ring = call.services.keys
    if not await ring.withdraw(kid, call.now, allowed=_allowed(call), done_by=call.actor.done_by):
        raise Refused.because(ErrorCode.NOT_FOUND, "this key does not exist", "admin.key")
    return Result(Done(changed=True))


def _allowed(call: Call) -> Callable[[Transaction], object]:
    return lambda tx: require(tx, call.actor, call.operation.permission)


def read_brand(tx: Transaction, call: Call) -> Result:
    """Read name, color, logo and links of the brand."""
    return _brand_result(current_brand(tx, call.services.settings.brand))


def change_brand(tx: Transaction, call: Call) -> Result | tuple[MetadataError, ...]:
    """Change the brand, if it is still as the caller saw it."""
    change, base = call.input(BrandChange), call.services.settings.brand
    said: dict[BrandField, str | None] = {}
    for field in BrandField:
        value: str | UnsetType | None = getattr(change, field.value)
        if not isinstance(value, UnsetType):
            said[field] = value
    # Optimistic locking: two callers that saw the same brand take turns.
    tx.brand.take_turn()
    call.preconditions.check(_brand_result(current_brand(tx, base)).etag)
    told = server.change_brand(tx, call.actor, base, said, call.now)
    return told if isinstance(told, tuple) else _brand_result(told)


def _brand_result(fields: Mapping[BrandField, str]) -> Result:
    record = BrandShown(**{field.value: fields[field] for field in BrandField})
    return Result(record, etag=tag_of(record))


def read_mail(tx: Transaction, call: Call) -> EmailQueueState:
    """Read the state of mail delivery."""
    state = server.email_queue(tx, call.actor)
    return EmailQueueState(
        server.transport_of(call.services.outbox),
        state.waiting,
        [event_shown(each) for each in state.sent],
        [event_shown(each) for each in state.given_up],
    )


def test_mail(tx: Transaction, call: Call) -> TestSent:
    """Send a test email to the user who calls."""
    uid = getattr(call.actor, "uid", None)
    outbox = call.services.outbox
    user = None if uid is None else server.send_test(tx, call.actor, outbox, uid, call.now)
    return TestSent(queued=user is not None, to="" if user is None else user.email)


ROTATE_KEYS = Operation(
    "rotate_keys",
    "POST",
    "/keys/rotate",
    Permission.KEYS,
    "Rotate the signing keys",
    rotate_keys,
    description="Once every verifier can know them, or at once.",
    input=RotationWanted,
    output=Keys,
    error_statuses=(409,),
    event=SigningKeyRetired,
    requires_recent_sign_in=True,
    buttons=(
        Button(
            "rotate",
            translatable("Rotate keys"),
            translatable(
                "The next key becomes active and another one is created. "
                "Existing tokens stay valid until they expire."
            ),
            translatable("Keys rotated."),
            fields=(
                ButtonField(
                    "algorithm",
                    translatable("Which keys"),
                    (
                        ("", translatable("All keys")),
                        *((each.value, each.value) for each in Algorithm),
                    ),
                ),
                ButtonField(
                    "at_once",
                    translatable("When"),
                    (
                        ("false", translatable("When caches have had time to fetch the next key")),
                        ("true", translatable("Now")),
                    ),
                    {
                        "false": translatable("No service interruption."),
                        "true": translatable(
                            "APIs that cache keys may reject new tokens for a few minutes."
                        ),
                    },
                ),
            ),
        ),
    ),
    commands=(),
)

WITHDRAW_KEY = Operation(
    "withdraw_key",
    "POST",
    "/keys/{kid}/withdraw",
    Permission.KEYS,
    "Reject everything that a key signed, from now on",
    withdraw_key,
    output=Done,
    event=SigningKeyWithdrawn,
    requires_recent_sign_in=True,
    buttons=(
        Button(
            "withdraw",
            translatable("Withdraw key"),
            translatable("Withdraw a key if it may have been compromised. Consequences:"),
            translatable("Key withdrawn. Tokens signed with it are no longer valid."),
            consequences=(
                translatable(
                    "Every token signed with it is rejected: immediately by this server, "
                    "within five minutes by APIs that cache keys."
                ),
                translatable(
                    "Apps with a refresh token get new access tokens automatically. "
                    "Other apps ask their users to sign in again."
                ),
                translatable("This cannot be undone."),
            ),
            danger=True,
            irreversible=True,
        ),
    ),
    commands=(
        Command(
            help="The next key of its algorithm signs. KID is as `valetkey key list` shows it. "
            "The servers may run. APIs that have cached the key forget it within five minutes.",
            question="Refuse every token that this key has signed?",
            done="It is withdrawn. Apps with a refresh token fetch new tokens by themselves.",
            missing="this signing key does not exist; see: valetkey key list",
        ),
    ),
)

READ_BRAND = Operation(
    "read_brand",
    "GET",
    "/brand",
    Permission.READ,
    "Name, color, logo and links",
    reads(read_brand),
    output=BrandShown,
    returns_etag=True,
    commands=(),
)

CHANGE_BRAND = Operation(
    "change_brand",
    "PATCH",
    "/brand",
    Permission.SETTINGS,
    "Change them; the pages follow within seconds",
    unchecked_write(change_brand),
    input=BrandChange,
    output=BrandShown,
    requires_if_match=True,
    returns_etag=True,
    event=BrandChanged,
    commands=(),
)

LIST_KEYS = Operation(
    "list_keys",
    "GET",
    "/keys",
    Permission.READ,
    "Signing keys: next, current and retiring",
    reads(list_keys),
    output=Keys,
    commands=(),
)

TEST_MAIL = Operation(
    "test_mail",
    "POST",
    "/mail/test",
    Permission.SETTINGS,
    "Send a test email to the user of this token",
    writes(test_mail),
    output=TestSent,
    commands=(),
)

SERVER = (
    Operation(
        "read_overview",
        "GET",
        "/overview",
        Permission.READ,
        "Counts of users, clients and grants, and the last days",
        reads(read_overview),
        output=OverviewShown,
        commands=(),
    ),
    LIST_KEYS,
    ROTATE_KEYS,
    WITHDRAW_KEY,
    READ_BRAND,
    CHANGE_BRAND,
    Operation(
        "read_mail",
        "GET",
        "/mail",
        Permission.READ,
        "State of mail delivery",
        reads(read_mail),
        output=EmailQueueState,
        commands=(),
    ),
    TEST_MAIL,
)
