"""The place of pages about webhooks: the console, or an app in the portal."""

from collections.abc import Callable
from typing import Generic, TypeVar
from urllib.parse import quote

from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import Permission, require
from valetkey.authorization.actions.webhooks import no_such_webhook
from valetkey.authorization.model.event.event import DoneBy
from valetkey.authorization.model.webhook import (
    MOST_WEBHOOKS,
    MOST_WEBHOOKS_OF_APP,
    OPERATOR,
    OWNER,
    Webhook,
)
from valetkey.authorization.site.admin.administrator import SERVER, AdminRequest, administrator
from valetkey.authorization.site.admin.input_form import Words
from valetkey.authorization.site.developer.app import (
    APP,
    AppHead,
    AppRequest,
    confirmed_at,
    member_of_app,
    owner_of_app,
)
from valetkey.authorization.site.page import (
    Requirement,
    Visit,
    VisitorRequest,
    not_found,
)
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.words import translatable

_ID = 100

R = TypeVar("R", bound=VisitorRequest)

_URL = (
    translatable("Address"),
    translatable("The https address of the receiver, on port 443 of a public host."),
)
_DESCRIPTION = (translatable("Description"), translatable("What it is for."))
_WORDS: Words = {
    "url": _URL,
    "events": (
        translatable("Events"),
        translatable("One name per line, as in the audit log. Empty: every event."),
    ),
    "description": _DESCRIPTION,
}
_APP_WORDS: Words = {
    "url": _URL,
    "events": (
        translatable("Events"),
        translatable(
            "One name per line; empty for all of these: consent.given, consent.withdrawn, "
            "grant.revoked, access_token.revoked, client_secret.issued, client_secret.ended, "
            "client.disabled, client.enabled."
        ),
    ),
    "description": _DESCRIPTION,
}


class Area(Struct, Generic[R], frozen=True):
    """The differences between console and portal.

    `judge` raises Refused unless the user may see, or change, the webhooks; it holds the right
    until the transaction ends. `because` is the reason of a webhook that the user disables.
    """

    path: str
    frame: str
    sees: Requirement[R]
    changes: Requirement[R]
    words: Words
    most: int
    because: str
    client_id: Callable[[R], str | None]
    head: Callable[[R], AppHead | None]
    may: Callable[[R], bool]
    done_by: Callable[[R], DoneBy]
    judge: Callable[[Transaction, R, bool], None]
    #: The heading of the navigation above it, "" for none.
    section: str = ""

    def at(self, request: R, webhook_id: str = "", act: str = "") -> str:
        """Return the address of the list, of a webhook, or of an operation on it."""
        head = self.head(request)
        place = self.path if head is None else head.path(self.path)
        return "/".join(part for part in (place, quote(webhook_id, safe=""), act) if part)

    def found(self, tx: Transaction, request: R) -> Webhook:
        """Return the webhook in the path. Raises Refused (not found), also for another owner's."""
        text = request.arguments["webhook_id"]
        fits = text.isascii() and text.isprintable() and len(text) <= _ID
        webhook = tx.webhooks.find(text) if fits else None
        if webhook is None or webhook.client_id != self.client_id(request):
            raise no_such_webhook()
        return webhook


def _judge_administrator(tx: Transaction, request: AdminRequest, changes: bool) -> None:
    require(tx, request.actor, Permission.SETTINGS if changes else Permission.READ)


def _judge_member(tx: Transaction, request: AppRequest, changes: bool) -> None:
    client_id, uid = request.client.id, request.user.uid
    tx.users.hold(uid)
    user = tx.users.find(uid)
    team = tx.members.team_to_change(client_id) if changes else tx.members.team(client_id)
    member = next((each for each in team if each.uid == uid), None)
    if user is None or user.disabled_at is not None or member is None:
        raise not_found("app")
    if changes and not member.owns:
        raise Refused(
            Refusal(
                ErrorCode.FORBIDDEN,
                "only an owner of this app can do this; contact an owner",
                "developer.owner",
            )
        )


async def _owner(visit: Visit) -> AppRequest:
    return await confirmed_at(visit, await owner_of_app(visit), "webhooks")


CONSOLE: Area[AdminRequest] = Area(
    "/admin/webhooks",
    "admin/frame.html",
    administrator(),
    administrator(Permission.SETTINGS, recent=True),
    _WORDS,
    MOST_WEBHOOKS,
    OPERATOR,
    lambda _: None,
    lambda _: None,
    lambda request: request.powers.allow(Permission.SETTINGS),
    lambda request: request.actor.done_by,
    _judge_administrator,
    section=SERVER,
)

PORTAL: Area[AppRequest] = Area(
    f"{APP}/webhooks",
    "developer/frame.html",
    member_of_app,
    _owner,
    _APP_WORDS,
    MOST_WEBHOOKS_OF_APP,
    OWNER,
    lambda request: request.client.id,
    lambda request: request.head,
    lambda request: request.app.membership.owns,
    lambda request: request.actor,
    _judge_member,
)
