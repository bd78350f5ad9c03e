"""Operations on the server: overview, keys, settings, brand, mail."""

import asyncio
from collections.abc import Callable, Mapping
from types import MappingProxyType

from msgspec import UnsetType

from valetkey.authorization.actions.admin import server
from valetkey.authorization.actions.admin.permissions import Permission, require
from valetkey.authorization.actions.admin.server import current_brand, last_days, totals
from valetkey.authorization.actions.inspection.machine import clock_of, own_database
from valetkey.authorization.model.event.administration import (
    BrandChanged,
    SigningKeyRetired,
    SigningKeyWithdrawn,
)
from valetkey.authorization.operations.events import shown as event_shown
from valetkey.authorization.operations.operation import (
    Button,
    ButtonField,
    Call,
    Command,
    Done,
    Operation,
    Result,
    Upload,
    UploadedFile,
    on,
    reads,
    tag_of,
    unchecked_write,
    writes,
)
from valetkey.authorization.operations.server_records import (
    AmountShown,
    BackupShown,
    BrandChange,
    BrandShown,
    DayShown,
    EmailQueueState,
    Keys,
    KeyShown,
    NodeShown,
    OverviewShown,
    RotationWanted,
    TestSent,
)
from valetkey.authorization.protocol.register.faults import MetadataError
from valetkey.authorization.storage.signing_keys import SigningKeyRecord
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.sections.people import BrandField
from valetkey.fetch.image import UnusableImage, banner
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.replace import converted
from valetkey.kernel.text import translatable


def read_overview(tx: Transaction, call: Call) -> OverviewShown:
    """Count users, clients and grants; report the last days, the nodes and the last backup."""
    now = totals(tx, call.actor, call.now)
    days = [
        DayShown(
            day.day,
            dict(day.tokens),
            dict(day.errors),
            day.people,
            day.sign_ins,
            day.failed_sign_ins,
        )
        for day in last_days(tx, call.actor, call.now)
    ]
    return OverviewShown(
        AmountShown(now.people.count, now.people.more),
        AmountShown(now.clients.count, now.clients.more),
        AmountShown(now.grants.count, now.grants.more),
        days,
        _nodes(tx, call),
        _backup(tx),
    )


def _nodes(tx: Transaction, call: Call) -> list[NodeShown]:
    now = clock_of(tx.db, own_database(call.services.settings), call.now)
    return [converted(NodeShown, node, running=node.is_running(now)) for node in tx.nodes.list(now)]


def _backup(tx: Transaction) -> BackupShown | None:
    last = tx.backups.last()
    if last is None:
        return None
    return converted(BackupShown, last, restored_since=not tx.backups.is_of_now(last))


def list_keys(tx: Transaction, call: Call) -> Keys:
    """List the published signing keys."""
    return Keys(
        [
            converted(KeyShown, key, state=key.state(call.now).value)
            for key in server.signing_keys(tx, call.actor, call.now)
        ]
    )


async def rotate_keys(call: Call) -> Result:
    """Rotate keys: once every verifier can know the next ones, or at once."""
    body, ring = call.input(RotationWanted), call.services.keys
    if body.algorithm is not None and body.algorithm not in ring.algorithms:
        raise Refused.because(
            ErrorCode.CONFLICT,
            translatable(
                "this server has no keys of that algorithm: see tokens.signing_algorithms"
            ),
            "admin.algorithm",
        )
    await ring.rotate(
        call.now,
        at_once=body.at_once,
        algorithm=body.algorithm,
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
    values: dict[BrandField, str | None] = {}
    for field in BrandField:
        value: str | UnsetType | None = getattr(change, field.value)
        if not isinstance(value, UnsetType):
            values[field] = value
    # Optimistic locking: two callers that saw the same brand take turns.
    tx.brand.take_turn()
    call.preconditions.check(_brand_result(current_brand(tx, base)).etag)
    failure = server.change_brand(tx, call.actor, base, values, call.now)
    return failure if isinstance(failure, tuple) else _brand_result(failure)


LARGEST_LOGO = 2 * 1024 * 1024
"""Maximum size of an uploaded logo, in bytes."""

LOGO_FIELDS = MappingProxyType({"light": BrandField.LOGO_URL, "dark": BrandField.LOGO_DARK_URL})
"""The field of the logo for light and for dark mode."""

_TOO_LARGE = frozenset({"image.pixels", "image.large", "image.scans"})


async def upload_logo(call: Call) -> Result:
    """Store a copy of the image as the logo. Refused: not found; invalid request for the image."""
    field, content = LOGO_FIELDS.get(call.named("mode")), call.input(UploadedFile).content
    store, actor = call.services.store, call.actor
    # Before the image is decoded, which takes longer than everything else.
    await store.read(lambda tx: require(tx, actor, call.operation.permission))
    if field is None:
        raise Refused.because(ErrorCode.NOT_FOUND, "the mode is light or dark", "logo.mode")
    if len(content) > LARGEST_LOGO:
        raise _no_logo("the image has more than 2 MiB; send a smaller one", "large")
    if content.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
        raise _no_logo("SVG is not accepted; send a PNG, JPEG, WebP or GIF file", "vector")
    try:
        image = await asyncio.to_thread(banner, content)
    except UnusableImage as failure:
        if failure.check in _TOO_LARGE:
            raise _no_logo(
                translatable("the image has too many pixels; send a smaller one"), "large"
            ) from None
        raise _no_logo(translatable("send a PNG, JPEG, WebP or GIF file"), "unusable") from None

    def stored(tx: Transaction) -> Result:
        base = call.services.settings.brand
        tx.brand.take_turn()
        call.preconditions.check(_brand_result(current_brand(tx, base)).etag)
        return _brand_result(server.change_logo(tx, actor, base, field, image, call.now))

    return await store.write(stored, done_by=actor.done_by)


def _no_logo(text: str, check: str) -> Refused:
    return Refused.because(ErrorCode.INVALID_REQUEST, text, f"logo.{check}")


def _brand_result(fields: Mapping[BrandField, str]) -> Result:
    record = BrandShown(**{field.value: fields[field] for field in BrandField})
    return Result(record, etag=tag_of(record))


def read_mail(tx: Transaction, call: Call) -> EmailQueueState:
    """Read the state of mail delivery."""
    state = server.email_queue(tx, call.actor)
    return EmailQueueState(
        server.transport_of(call.services.outbox),
        state.waiting,
        [event_shown(event) for event in state.sent],
        [event_shown(event) for event in state.given_up],
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
                        *((algorithm.value, algorithm.value) for algorithm in Algorithm),
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
            translatable("Withdraw a key if it may have been compromised."),
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
            shown_for=on(SigningKeyRecord),
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

UPLOAD_LOGO = Operation(
    "upload_logo",
    "PUT",
    "/brand/logos/{mode}",
    Permission.SETTINGS,
    "Replace the logo for light or dark mode",
    upload_logo,
    description="`mode` is `light` or `dark`. A PNG, JPEG, WebP or GIF file of at most 2 MiB and 4 "
    "million pixels. The server keeps a copy that fits into 480 x 96 pixels. To remove it, change "
    "`logo_url` or `logo_dark_url` to null.",
    upload=Upload(
        {
            media: {"type": "string", "format": "binary"}
            for media in ("image/png", "image/jpeg", "image/webp", "image/gif")
        },
        lambda _: LARGEST_LOGO,
    ),
    output=BrandShown,
    returns_etag=True,
    error_statuses=(400, 415),
    event=BrandChanged,
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
        "Counts of users, clients and grants, the last days, nodes and the last backup",
        reads(read_overview),
        output=OverviewShown,
        commands=(),
    ),
    LIST_KEYS,
    ROTATE_KEYS,
    WITHDRAW_KEY,
    READ_BRAND,
    CHANGE_BRAND,
    UPLOAD_LOGO,
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
