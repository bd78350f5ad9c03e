"""/developer: the apps in whose teams the user is."""

from collections.abc import Iterator
from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.actions.developer.portal import Portal
from valetkey.authorization.actions.developer.team import TeamApp, own_apps
from valetkey.authorization.layout.addresses import DEVELOPER
from valetkey.authorization.model.user import Uid
from valetkey.authorization.site.developer.app import AppHead, head_of
from valetkey.authorization.site.developer.invitation import INVITATIONS
from valetkey.authorization.site.page import (
    AnyPage,
    Outcome,
    Page,
    Show,
    SignedInRequest,
    signed_in,
)
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.kernel.moment import Instant
from valetkey.kernel.words import translatable


class OwnAppLine(Struct, frozen=True):
    """One app in the list. `domain` is the host of its redirect URI, "" for none."""

    head: AppHead
    domain: str
    profile: str
    verified: bool = False


class OfferLine(Struct, frozen=True):
    """An invitation to a team; `url` is the page that answers it."""

    url: str
    app_name: str
    by: str


class OwnAppsPage(Struct, frozen=True):
    """The context of apps.html."""

    template: ClassVar[str] = "developer/apps.html"

    apps: tuple[OwnAppLine, ...]
    may_register: bool = True
    #: Invitations to teams.
    offers: tuple[OfferLine, ...] = ()
    #: Whether one of the apps was just deleted.
    deleted: bool = False


class Apps(Struct, frozen=True):
    """List the apps, and the invitations to teams."""

    store: Store
    portal: Portal

    def pages(self) -> tuple[AnyPage, ...]:
        """Return the page of this feature."""
        title = translatable("Your apps")
        return (
            Page(
                DEVELOPER,
                signed_in,
                self.show,
                title=title,
                nav=True,
                docs="how-to/apps/let-developers-register.html",
            ),
        )

    async def show(self, request: SignedInRequest) -> Outcome:
        """Show the list of apps and invitations."""
        user = request.user
        apps, denial, offers = await self.store.scan(
            lambda tx: (
                own_apps(tx, user.uid),
                self.portal.registration_denial(tx, user),
                tuple(_offers(tx, user.uid, request.now)),
            )
        )
        return Show(
            OwnAppsPage(
                tuple(_line(app) for app in apps),
                may_register=denial is None,
                offers=offers,
                deleted="deleted" in request.query,
            )
        )


def _offers(tx: Transaction, uid: Uid, now: Instant) -> Iterator[OfferLine]:
    for each in tx.team_invitations.waiting_for(uid, now):
        client, by = tx.clients.find(each.client_id), tx.users.find(each.invited_by)
        if client is not None and by is not None:
            place = f"{INVITATIONS}{each.id}"
            yield OfferLine(place, client.name or client.id, by.name or by.username)


def _line(app: TeamApp) -> OwnAppLine:
    return OwnAppLine(
        head_of(app),
        app.client.domain,
        app.client.profile_name.value,
        verified=app.client.verified_at is not None,
    )
