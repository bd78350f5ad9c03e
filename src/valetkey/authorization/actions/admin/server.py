"""Administration of the server: its brand, its signing keys, and its email queue."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from types import MappingProxyType
from typing import Literal

from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import Actor, Permission, require
from valetkey.authorization.email.notices import MailOutbox
from valetkey.authorization.model.email import Email, EmailKind
from valetkey.authorization.model.event.administration import BrandChanged
from valetkey.authorization.model.signing_key import SigningKeyRecord
from valetkey.authorization.model.user import Uid, User
from valetkey.authorization.protocol.register.faults import MetadataError
from valetkey.authorization.storage.records import EventRecord
from valetkey.authorization.storage.search import END, EventFilter
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config import rules
from valetkey.config.sections.brand import BrandField, BrandSettings
from valetkey.kernel.moment import Instant
from valetkey.kernel.secret import to_base64url

_SHOWN = 10


class EmailQueueState(Struct, frozen=True):
    """The number of queued emails, and the results of the latest, newest first."""

    waiting: int
    sent: Sequence[EventRecord]
    given_up: Sequence[EventRecord]


def email_queue(tx: Transaction, actor: Actor) -> EmailQueueState:
    """Return the state of the email queue. Raises Refused (forbidden)."""
    require(tx, actor, Permission.READ)
    sent = EventFilter(name="mail.dispatched")
    given_up = EventFilter(name="mail.given_up")
    return EmailQueueState(
        tx.mails.waiting(),
        tx.event_search.page(sent, END, _SHOWN),
        tx.event_search.page(given_up, END, _SHOWN),
    )


def send_test(
    tx: Transaction, actor: Actor, outbox: MailOutbox, uid: Uid, now: Instant
) -> User | None:
    """Send a test email to the calling administrator; None if mail is off.

    The recipient cannot be chosen, so that this cannot be used to send email to others. Raises
    Refused (forbidden).
    """
    require(tx, actor, Permission.SETTINGS)
    user = tx.users.find(uid)
    if user is None:
        return None
    message = Email(EmailKind.TEST, user.email, user.claims.locale, {}, user.uid)
    return user if outbox.enqueue(tx, message, now) else None


def transport_of(outbox: MailOutbox) -> Literal["smtp", "mailbox", "off"]:
    """Return how email is delivered."""
    if not outbox.is_on:
        return "off"
    return "mailbox" if outbox.settings.is_mailbox else "smtp"


def signing_keys(tx: Transaction, actor: Actor, now: Instant) -> Sequence[SigningKeyRecord]:
    """Return every published key, the earliest to sign first. Raises Refused (forbidden)."""
    require(tx, actor, Permission.READ)
    return tx.signing_keys.all(now)


_LONGEST_NAME = 60
_NAME = rules.text(_LONGEST_NAME, f"a name of 1 to {_LONGEST_NAME} characters")
_RULES: Mapping[BrandField, rules.Rule] = MappingProxyType(
    {
        BrandField.NAME: _NAME,
        BrandField.ACCENT: rules.COLOUR,
        BrandField.LOGO_URL: rules.LOGO,
        BrandField.LOGO_DARK_URL: rules.LOGO,
        BrandField.TERMS_URL: rules.LINK,
        BrandField.PRIVACY_URL: rules.LINK,
    }
)


def brand_of(settings: BrandSettings) -> Mapping[BrandField, str]:
    """Return the brand of the configuration file."""
    return {field: str(getattr(settings, field.value)) for field in BrandField}


def current_brand(tx: Transaction, settings: BrandSettings) -> Mapping[BrandField, str]:
    """Return the current brand."""
    return {**brand_of(settings), **tx.brand.all()}


LOGOS = "/logos/"
"""The path below which uploaded logos are served."""


def change_logo(
    tx: Transaction,
    actor: Actor,
    settings: BrandSettings,
    field: BrandField,
    image: bytes,
    now: Instant,
) -> Mapping[BrandField, str]:
    """Store an encoded image as the logo, for light or for dark mode. Return the brand.

    Its address follows from its content, so that no cache shows the previous one. Raises Refused
    (forbidden).
    """
    tx.brand.take_turn()
    require(tx, actor, Permission.SETTINGS)
    name = to_base64url(sha256(image).digest()[:16])
    tx.brand.store_logo(name, image, now)
    changed = change_brand(tx, actor, settings, {field: f"{LOGOS}{name}"}, now)
    if isinstance(changed, tuple):
        raise TypeError(changed)  # the path was made here
    return changed


def change_brand(
    tx: Transaction,
    actor: Actor,
    settings: BrandSettings,
    changes: Mapping[BrandField, str | None],
    now: Instant,
) -> Mapping[BrandField, str] | tuple[MetadataError, ...]:
    """Change the brand. Return the result, or the errors. None as a value restores the setting.

    Pages of every process follow within seconds. Raises Refused (forbidden).
    """
    tx.brand.take_turn()
    require(tx, actor, Permission.SETTINGS)
    faults: list[MetadataError] = []
    wanted: dict[BrandField, str | None] = {}
    for field, value in changes.items():
        try:
            wanted[field] = None if value is None else str(_RULES[field].read(value.strip()))
        except rules.InvalidValue:
            faults.append(MetadataError(field.value, _RULES[field].expected))
    if wanted.get(BrandField.NAME) == "":
        faults.append(MetadataError(BrandField.NAME.value, _NAME.expected))
    if faults:
        return tuple(faults)
    base = brand_of(settings)
    before = current_brand(tx, settings)
    for field, value in wanted.items():
        if value is None or value == base[field]:
            tx.brand.drop(field)
        else:
            tx.brand.set(field, value, now)
    after = current_brand(tx, settings)
    tx.brand.drop_logos(
        [
            after[field].removeprefix(LOGOS)
            for field in (BrandField.LOGO_URL, BrandField.LOGO_DARK_URL)
        ]
    )
    for field in BrandField:
        if before[field] != after[field]:
            tx.events.add(BrandChanged(field.value, before[field], after[field]), now)
    return after
