"""The place of pages about webhooks: the console, or an app in the portal."""

from collections.abc import Callable
from typing import Generic, TypeVar
from urllib.parse import quote

from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import (
    NOTHING,
    Actor,
    ActorPermissions,
    Permission,
)
from valetkey.authorization.actions.webhooks import (
    TeamMember,
    app_of,
    no_such_webhook,
    require_access,
)
from valetkey.authorization.layout.addresses import ADDRESSES
from valetkey.authorization.model.webhook import MOST_WEBHOOKS, MOST_WEBHOOKS_OF_APP, Webhook
from valetkey.authorization.site.admin.administrator import SERVER, AdminRequest, administrator
from valetkey.authorization.site.admin.confirm import Buttons
from valetkey.authorization.site.admin.input_fields import Words
from valetkey.authorization.site.developer.app import (
    APP,
    CONFIGURATION,
    AppHead,
    AppRequest,
    confirmed_at,
    member_of_app,
    owner_of_app,
)
from valetkey.authorization.site.page import Requirement, Visit, VisitorRequest
from valetkey.authorization.storage.transaction import Transaction
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
        translatable("One name per line, as in the audit log. Leave empty for every event."),
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


BUTTONS = Buttons.below("/webhooks/{webhook_id}")


class Area(Struct, Generic[R], frozen=True):
    """The differences between console and portal.

    `acts` is what an operation on a webhook requires. The operations check the `actor` again;
    `powers` decide what a page offers.
    """

    path: str
    frame: str
    sees: Requirement[R]
    changes: Requirement[R]
    acts: Requirement[R]
    words: Words
    most: int
    actor: Callable[[R], Actor]
    permissions_of: Callable[[R], ActorPermissions]
    head: Callable[[R], AppHead | None]
    #: The heading of the navigation above it, "" for none.
    section: str = ""

    def may(self, request: R) -> bool:
        """Return whether the user may change webhooks."""
        return self.permissions_of(request).allow(Permission.SETTINGS)

    def at(self, request: R, webhook_id: str = "") -> str:
        """Return the address of the list or of a webhook."""
        head = self.head(request)
        place = self.path if head is None else head.path(self.path)
        return f"{place}/{quote(webhook_id, safe='')}" if webhook_id else place

    def found(self, tx: Transaction, request: R) -> Webhook:
        """Return the webhook in the path. Raises Refused (not found), also for another owner's."""
        actor, text = self.actor(request), request.arguments["webhook_id"]
        require_access(tx, actor, changes=False)
        fits = text.isascii() and text.isprintable() and len(text) <= _ID
        webhook = tx.webhooks.find(text) if fits else None
        if webhook is None or webhook.client_id != app_of(actor):
            raise no_such_webhook()
        return webhook


_OF_OWNER = ActorPermissions(None, frozenset({Permission.SETTINGS}))


async def _owner(visit: Visit) -> AppRequest:
    return await confirmed_at(visit, await owner_of_app(visit), "webhooks")


CONSOLE: Area[AdminRequest] = Area(
    ADDRESSES["admin_webhooks"],
    "admin/frame.html",
    administrator(),
    administrator(Permission.SETTINGS, recent=True),
    BUTTONS.requirement,
    _WORDS,
    MOST_WEBHOOKS,
    lambda request: request.actor,
    lambda request: request.permissions,
    lambda _: None,
    section=SERVER,
)

PORTAL: Area[AppRequest] = Area(
    f"{APP}/webhooks",
    "developer/frame.html",
    member_of_app,
    _owner,
    _owner,
    _APP_WORDS,
    MOST_WEBHOOKS_OF_APP,
    lambda request: TeamMember(request.user.uid, request.client.id),
    lambda request: _OF_OWNER if request.app.membership.owns else NOTHING,
    lambda request: request.head,
    CONFIGURATION,
)
