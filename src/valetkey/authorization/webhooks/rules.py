"""Changes of webhooks, for administrators and for the team of an app.

The functions run inside a transaction. Callers first check with `require_access` who may do it.
"""

from collections.abc import Callable, Collection

from msgspec import Struct
from msgspec.structs import asdict

from valetkey.authorization.actions.admin.permissions import (
    NOTHING,
    Actor,
    ActorPermissions,
    Permission,
    require,
)
from valetkey.authorization.actions.teams import NOT_OWNER
from valetkey.authorization.model.event.event import DoneBy, by_user
from valetkey.authorization.model.user import Uid
from valetkey.authorization.protocol.register.faults import MetadataError, fault
from valetkey.authorization.protocol.register.openid_rules import fetch_fault
from valetkey.authorization.storage.records import subject_of
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.webhooks.model import (
    APP_EVENTS,
    MOST_WAITING,
    MOST_WAITING_OF_APP,
    MOST_WEBHOOKS,
    MOST_WEBHOOKS_OF_APP,
    OPERATOR,
    OVERLAP,
    TEST,
    Webhook,
    WebhookChanged,
    WebhookCreated,
    WebhookDisabled,
    WebhookEnabled,
    WebhookMessageRequested,
    WebhookRemoved,
    WebhookSecretIssued,
    WebhookWanted,
    secret_place,
)
from valetkey.authorization.webhooks.storage import Webhooks
from valetkey.config.settings import Settings
from valetkey.kernel.keyring import Sealer
from valetkey.kernel.moment import Instant, later
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import fresh_id, same
from valetkey.kernel.text import FilledText, translatable
from valetkey.kernel.webhook import fresh_webhook_secret

_NO_APP = Refusal(ErrorCode.NOT_FOUND, "this app does not exist", "account.app")
_ID = 16

ENTROPY = 48
"""Random bytes for the id and the secret of a new webhook."""


class TeamMember(Struct, frozen=True):
    """A member of the team of an app: sees the app's webhooks, and changes them as an owner."""

    uid: Uid
    client_id: str

    @property
    def done_by(self) -> DoneBy:
        """`user 17`."""
        return by_user(self.uid)

    def permissions_in(self, tx: Transaction) -> ActorPermissions:
        """Return none: a team has no permission of administration."""
        del tx
        return NOTHING

    def require(self, tx: Transaction, *, changes: bool) -> None:
        """Raise Refused unless the user is in the team or, for a change, an owner of the app."""
        tx.users.hold(self.uid)
        user = tx.users.find(self.uid)
        find_team = tx.members.team_to_change if changes else tx.members.team
        member = next(
            (membership for membership in find_team(self.client_id) if membership.uid == self.uid),
            None,
        )
        if user is None or user.disabled_at is not None or member is None:
            raise Refused(_NO_APP)
        if changes and not member.owns:
            raise Refused(NOT_OWNER)


def require_access(tx: Transaction, actor: Actor, *, changes: bool) -> None:
    """Raise Refused unless the actor may see or change webhooks; hold that until the commit."""
    if isinstance(actor, TeamMember):
        actor.require(tx, changes=changes)
    else:
        require(tx, actor, Permission.SETTINGS if changes else Permission.READ)


def app_of(actor: Actor) -> str | None:
    """Return the app whose webhooks are the only ones that the actor may change; None for any."""
    return actor.client_id if isinstance(actor, TeamMember) else None


class NewWebhook(Struct, frozen=True):
    """A new webhook and its secret, which is shown once."""

    webhook: Webhook
    secret: str


class WebhookChanges(Struct, frozen=True):
    """Creates and changes webhooks. `entropy` are random bytes drawn before a transaction."""

    settings: Settings
    sealer: Sealer
    random: Callable[[int], bytes]
    kinds: Collection[str]
    """The names of all events."""

    def create(
        self,
        tx: Transaction,
        target: WebhookWanted,
        entropy: bytes,
        now: Instant,
        client_id: str | None = None,
        secret: str | None = None,
    ) -> NewWebhook | tuple[MetadataError, ...]:
        """Create a webhook; return it with its secret, or why not. Refused: too many.

        Without `secret` one is generated.
        """
        Webhooks.of(tx).hold_all()
        if faults := self._faults(target, client_id):
            return faults
        webhook_id = fresh_id("wh", lambda size: entropy[:size])
        secret, sealed = self._secret(webhook_id, entropy, secret)
        webhook = Webhook(
            webhook_id,
            target.url,
            target.description,
            _chosen(target, client_id),
            sealed,
            None,
            None,
            0,
            Instant(0),
            "",
            None,
            now,
            most_waiting=_most_waiting(client_id),
            client_id=client_id,
        )
        most = MOST_WEBHOOKS if client_id is None else MOST_WEBHOOKS_OF_APP
        if not Webhooks.of(tx).add(webhook, most):
            text = FilledText(translatable("there are %(most)s webhooks already"), most=most)
            raise _conflict(text, "webhook.most")
        tx.events.add(WebhookCreated(webhook_id, webhook.events, client_id), now)
        return NewWebhook(webhook, secret)

    def change(
        self, tx: Transaction, webhook: Webhook, target: WebhookWanted, now: Instant
    ) -> Webhook | tuple[MetadataError, ...]:
        """Change address, events and description; queued messages are sent to the new address."""
        if faults := self._faults(target, webhook.client_id):
            return faults
        changed = replace(
            webhook, **{**asdict(target), "events": _chosen(target, webhook.client_id)}
        )
        if changed != webhook and Webhooks.of(tx).change(changed):
            fields = webhook.changed_fields(changed)
            tx.events.add(WebhookChanged(webhook.id, fields, webhook.client_id), now)
        return changed

    def rotate(
        self,
        tx: Transaction,
        webhook: Webhook,
        entropy: bytes,
        now: Instant,
        secret: str | None = None,
    ) -> str:
        """Replace the secret and return the new one. The old one also signs for a day."""
        secret, sealed = self._secret(webhook.id, entropy, secret)
        if not Webhooks.of(tx).rotate(webhook.id, webhook.sealed, sealed, later(now, OVERLAP)):
            raise _conflict(translatable("the secret was just changed"), "webhook.secret")
        tx.events.add(WebhookSecretIssued(webhook.id, webhook.client_id), now)
        return secret

    def _faults(self, target: WebhookWanted, client_id: str | None) -> tuple[MetadataError, ...]:
        event_names = self.kinds if client_id is None else APP_EVENTS.keys()
        faults = [
            fault(f"events/{index}", "event.unknown", name=name)
            for index, name in enumerate(target.events)
            if name not in event_names
        ]
        if url_fault := fetch_fault("url", target.url, self.settings.fetch.allow):
            faults.append(url_fault)
        return tuple(faults)

    def has_secret(self, webhook: Webhook, secret: str) -> bool:
        """Return whether this is the current secret of the webhook."""
        opened = self.sealer.open(webhook.sealed, secret_place(webhook.id))
        return opened is not None and same(opened.decode(), secret)

    def _secret(
        self, webhook_id: str, entropy: bytes, chosen_secret: str | None
    ) -> tuple[str, str]:
        # Beyond the bytes of the id, so that neither reveals the other.
        secret = chosen_secret or fresh_webhook_secret(lambda size: entropy[_ID : _ID + size])
        return secret, self.sealer.seal(secret.encode(), secret_place(webhook_id), self.random)


def reseal_all(tx: Transaction, reseal: Callable[[str, str, str], str]) -> None:
    """Seal the secrets again, after a change of the keyring."""
    for webhook in Webhooks.of(tx).all():
        where, what = secret_place(webhook.id), f"webhook {webhook.id}"
        previous = webhook.previous_sealed
        Webhooks.of(tx).reseal(
            webhook,
            reseal(webhook.sealed, where, what),
            None if previous is None else reseal(previous, where, what),
        )


def remove_webhook(tx: Transaction, webhook: Webhook, now: Instant) -> bool:
    """Delete a webhook with its queued messages. False if it has been deleted."""
    removed = Webhooks.of(tx).remove(webhook.id)
    if removed:
        tx.events.add(WebhookRemoved(webhook.id, webhook.client_id), now)
    return removed


def enable_webhook(tx: Transaction, webhook: Webhook, now: Instant) -> bool:
    """Enable a webhook; queued messages are sent. False if it was enabled."""
    enabled = Webhooks.of(tx).enable(webhook.id, _most_waiting(webhook.client_id))
    if enabled:
        tx.events.add(WebhookEnabled(webhook.id, webhook.client_id), now)
    return enabled


def disable_webhook(
    tx: Transaction, webhook: Webhook, now: Instant, because: str = OPERATOR
) -> bool:
    """Disable a webhook; it receives nothing until it is enabled. False if it was disabled."""
    disabled = Webhooks.of(tx).disable(webhook.id, because, now)
    if disabled:
        tx.events.add(WebhookDisabled(webhook.id, because, webhook.client_id), now)
    return disabled


def queue_test(tx: Transaction, webhook: Webhook, event_id: str, now: Instant) -> bool:
    """Queue a test message. Refused: the webhook is disabled."""
    return _queue(tx, webhook, event_id, TEST, "", now)


def queue_again(tx: Transaction, webhook: Webhook, event_id: str, now: Instant) -> bool:
    """Queue an earlier event; False if it is queued already. Refused: not found; disabled.

    A webhook of an app gets nothing but its own events.
    """
    event = tx.events.find(event_id)
    if event is None or not may_receive(webhook, event.name, event.client_id):
        raise Refused.because(ErrorCode.NOT_FOUND, "this event does not exist", "webhook.event")
    return _queue(tx, webhook, event.id, event.name, subject_of(event.uid, event.client_id), now)


def may_receive(webhook: Webhook, name: str, client_id: str | None) -> bool:
    """Return whether a webhook may be sent events of this name about this client."""
    return webhook.client_id is None or (name in APP_EVENTS and client_id == webhook.client_id)


def no_such_webhook() -> Refused:
    """Return the refusal of a webhook that does not exist."""
    return Refused.because(ErrorCode.NOT_FOUND, "this webhook does not exist", "webhook.unknown")


def _queue(
    tx: Transaction, webhook: Webhook, event_id: str, name: str, subject: str, now: Instant
) -> bool:
    if webhook.disabled_at is not None:
        raise _conflict(
            translatable("this webhook is disabled: enable it first"), "webhook.disabled"
        )
    if Webhooks.of(tx).is_overfull(webhook.id):
        raise _conflict(translatable("too many messages wait for this webhook"), "webhook.full")
    queued = Webhooks.of(tx).queue_one(webhook.id, event_id, name, subject, now)
    if queued:
        tx.events.add(WebhookMessageRequested(webhook.id, event_id, webhook.client_id), now)
    return queued


def _chosen(target: WebhookWanted, client_id: str | None) -> tuple[str, ...]:
    # The names are stored: an event that is added later is not sent to apps unasked.
    return tuple(dict.fromkeys(target.events)) or (() if client_id is None else tuple(APP_EVENTS))


def _most_waiting(client_id: str | None) -> int:
    return MOST_WAITING if client_id is None else MOST_WAITING_OF_APP


def _conflict(description: str, check: str) -> Refused:
    return Refused.because(ErrorCode.CONFLICT, description, check)
