"""/developer/apps/{client_id}: parts shared by the pages of an app, its overview and deletion."""

from collections.abc import Mapping
from typing import ClassVar
from urllib.parse import quote, unquote

from msgspec import Struct

from valetkey.authorization.actions.developer.portal import Portal
from valetkey.authorization.actions.developer.presets import kind_of
from valetkey.authorization.actions.developer.secrets import seen_in_url
from valetkey.authorization.actions.developer.team import NOT_OWNER, TeamApp, find_own
from valetkey.authorization.layout.addresses import DEVELOPER
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.model.client import Client
from valetkey.authorization.protocol.client_authentication import BY_NAME
from valetkey.authorization.site.page import (
    Act,
    AnyPage,
    Outcome,
    Page,
    PageVisit,
    SeeOther,
    Show,
    SignedInRequest,
    not_found,
    require_confirmed,
    signed_in,
)
from valetkey.authorization.site.presentation import logo_of
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.kernel.refusal import Refused
from valetkey.kernel.words import translatable

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
        place = self.path(APP)
        return f"{place}/{section}" if section else place

    def path(self, pattern: str) -> str:
        """Return the path of a page of this app from the pattern that the page declares."""
        return pattern.replace("{client_id}", quote(self.client_id, safe=""))


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
    return await member_of(visit, request, decoded(request.arguments["client_id"]))


async def owner_of_app(visit: PageVisit) -> AppRequest:
    """Require that the user owns the app. Refused (forbidden) for other members of its team."""
    found = await member_of_app(visit)
    if not found.app.membership.owns:
        raise Refused(NOT_OWNER)
    return found


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


def decoded(segment: str) -> str:
    """Return the client id in a path segment; "" for one that cannot be a client id."""
    try:
        client_id = unquote(segment, errors="strict")
    except UnicodeDecodeError:
        return ""
    return client_id if client_id.isascii() and client_id.isprintable() else ""


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


class OverviewPage(Struct, frozen=True):
    """The context of overview.html: the client id, the status, and what to do next.

    `kind`: server, browser, device, machine. `proof` is the label of the authentication method.
    """

    template: ClassVar[str] = "developer/overview.html"
    scripts: ClassVar[tuple[str, ...]] = ("copy.js", "times.js")

    app: AppHead
    #: The URL of this server, which the app needs as well.
    issuer: str
    kind: str
    profile: str
    proof: str
    redirect_uris: tuple[str, ...]
    registered: When
    description: str = ""
    verified: bool = False
    #: The permissions it requests, each beginning with a verb.
    sentences: tuple[str, ...] = ()
    #: A live secret was sent in a URL.
    secret_seen: bool = False
    #: Whether it authenticates with a secret, and has no live one.
    without_secret: bool = False


class Overview(Struct, frozen=True):
    """Show an app to its team."""

    store: Store
    scopes: Mapping[str, str]
    issuer: str

    def pages(self) -> tuple[AnyPage, ...]:
        """Return the page of this feature."""
        return (Page(APP, member_of_app, self.show, title=translatable("Overview"), nav=True),)

    async def show(self, request: AppRequest) -> Outcome:
        """Show the overview of the app."""
        client, now, scopes = request.client, request.now, self.scopes
        live, sighting = await self.store.read(
            lambda tx: (tx.secrets.live(client.id, now), tx.clients.query_credential_use(client.id))
        )
        return Show(
            OverviewPage(
                app=request.head,
                issuer=self.issuer,
                kind=kind_of(client).value,
                profile=client.profile_name.value,
                proof=BY_NAME[client.authentication_method].label,
                redirect_uris=client.redirect_uris,
                registered=When(client.created_at, now),
                description=client.description,
                verified=client.verified_at is not None,
                sentences=tuple(scopes[name] for name in client.scope if name in scopes),
                secret_seen=seen_in_url(live, sighting) is not None,
                without_secret=client.has_secret and not live,
            )
        )


_UNPROCESSABLE = 422


class DeleteAppPage(Struct, frozen=True):
    """The context of delete.html. Its form posts `csrf` and `name`.

    `people` are connected, by `authorizations` that are valid.
    """

    template: ClassVar[str] = "developer/delete.html"

    app: AppHead
    action: str
    people: int
    authorizations: int
    typed: str = ""
    wrong: bool = False


class DeleteApp(Struct, frozen=True):
    """Delete an app; for its owners only."""

    store: Store
    portal: Portal

    def pages(self) -> tuple[AnyPage, ...]:
        """Return the page of this feature."""
        act, title = Act(self.delete), translatable("Delete app")
        under = f"{APP}/settings"
        return (Page(f"{APP}/delete", _may_delete, self.show, act, title=title, under=under),)

    async def show(self, request: AppRequest) -> Outcome:
        """Show how many users the deletion would disconnect."""
        return await self._form(request)

    async def delete(self, request: AppRequest) -> Outcome:
        """Delete the app if its name was typed."""
        app, uid, now = request.app, request.user.uid, request.now
        typed = (request.form.get("name") or "").strip()
        if typed != app.name:
            return await self._form(request, typed=typed, wrong=True)

        def delete_if_owner(tx: Transaction) -> bool:
            held = tx.clients.find_to_change(app.client.id)
            current = None if held is None else find_own(tx, app.client.id, uid)
            if held is None or current is None or not current.membership.owns:
                return False
            self.portal.delete(tx, held, now)
            return True

        if not await self.store.write(delete_if_owner, done_by=request.actor):
            raise not_found("app")
        return SeeOther(f"{DEVELOPER}?deleted=1")

    async def _form(self, request: AppRequest, *, typed: str = "", wrong: bool = False) -> Show:
        client_id, now, head = request.client.id, request.now, request.head
        reach = await self.store.scan(lambda tx: tx.grants.usage_of(client_id, now))
        context = DeleteAppPage(
            head,
            head.at("delete"),
            people=reach.people,
            authorizations=reach.authorizations,
            typed=typed,
            wrong=wrong,
        )
        return Show(context, _UNPROCESSABLE if wrong else 200)


async def _may_delete(visit: PageVisit) -> AppRequest:
    return await confirmed_at(visit, await owner_of_app(visit), "delete")
