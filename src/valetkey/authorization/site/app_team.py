"""Pages about one app, for its team: whom they require, and what all of them show."""

from msgspec import Struct

from valetkey.authorization.actions.teams import NOT_OWNER, TeamApp, find_own
from valetkey.authorization.layout.addresses import DEVELOPER
from valetkey.authorization.model.client import Client
from valetkey.authorization.site.page import (
    PageVisit,
    SignedInRequest,
    not_found,
    require_confirmed,
    signed_in,
)
from valetkey.authorization.site.presentation import logo_of
from valetkey.kernel.refusal import Refused
from valetkey.kernel.text import translatable
from valetkey.kernel.url import path_segment, segment_name

APP = f"{DEVELOPER}/apps/{{client_id}}"
"""The path of the overview of an app; the paths of its other pages are below it."""

CONFIGURATION = translatable("Configuration")
INTEGRATION = translatable("Integration")
MONITORING = translatable("Monitoring")
"""The headings of the navigation of an app."""


class AppHead(Struct, frozen=True):
    """The app's name and state on each of its pages; `app` in templates."""

    client_id: str
    name: str
    logo_url: str = ""
    #: Whether the visitor is an owner, who may change the team and delete the app.
    owns: bool = False
    disabled: bool = False
    #: Whether the app authenticates with a client secret.
    has_secret: bool = False

    def at(self, section: str = "") -> str:
        """Return the path of a section of the app, such as `settings`; "" is the overview."""
        app_path = self.path(APP)
        return f"{app_path}/{section}" if section else app_path

    def path(self, pattern: str) -> str:
        """Return the path of a page of this app from the pattern that the page declares."""
        return pattern.replace("{client_id}", path_segment(self.client_id))


class AppRequest(SignedInRequest, frozen=True, kw_only=True):
    """A request of a member of the team of an app."""

    app: TeamApp

    @property
    def client(self) -> Client:
        """The registered app."""
        return self.app.client

    @property
    def head(self) -> AppHead:
        """Return the context that every page about the app shows."""
        return head_of(self.app)


async def member_of_app(visit: PageVisit) -> AppRequest:
    """Require that the user is in the team of the app that the path names.

    Refused (not found), in the same words for an app of others and for none.
    """
    request = await signed_in(visit)
    return await member_of(visit, request, segment_name(request.arguments["client_id"]))


async def owner_of_app(visit: PageVisit) -> AppRequest:
    """Require that the user owns the app. Refused (forbidden) for other members of its team."""
    request = await member_of_app(visit)
    if not request.app.membership.owns:
        raise Refused(NOT_OWNER)
    return request


async def member_of(visit: PageVisit, request: SignedInRequest, client_id: str) -> AppRequest:
    """Require that the user is in the team of this app, "" for none."""
    uid = request.user.uid
    app = None
    if client_id:
        app = await visit.browsers.store.read(lambda tx: find_own(tx, client_id, uid))
    if app is None:
        raise not_found("app")
    return AppRequest(
        request=request.request,
        signed_in=request.signed_in,
        browser=request.browser,
        csrf=request.csrf,
        headers=request.headers,
        form=request.form,
        app=app,
    )


async def confirmed_at(visit: PageVisit, request: AppRequest, section: str) -> AppRequest:
    """Require recent authentication as well; the user returns to this page of the app."""
    await require_confirmed(visit.browsers, request, request.head.at(section))
    return request


def head_of(app: TeamApp) -> AppHead:
    """Return the context that every page about this app shows."""
    return AppHead(
        client_id=app.client.id,
        name=app.name,
        logo_url=logo_of(app.client),
        owns=app.membership.owns,
        disabled=app.client.disabled_at is not None,
        has_secret=app.client.has_secret,
    )
