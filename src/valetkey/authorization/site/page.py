"""Pages: declared by features, served here.

A feature declares the address, the requirement, the content and the form of a page. Sessions,
recent authentication, CSRF, form parsing, status and headers are handled here. A handler receives
a request that meets the requirement and returns an outcome.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from valetkey.authorization.authentication.browsers import Browsers
from valetkey.authorization.authentication.session import SignedIn
from valetkey.authorization.layout.addresses import SIGN_IN
from valetkey.authorization.layout.navigation import MenuItem, Navigation
from valetkey.authorization.layout.render import PageContext as Context
from valetkey.authorization.layout.return_path import safe_return_path
from valetkey.authorization.model.account.user import User
from valetkey.authorization.model.event.actor import DoneBy, by_user
from valetkey.authorization.model.session import Session
from valetkey.authorization.site.presentation import Renderer
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.web.exchange import Endpoint, Pairs, Refuse, Request, Response, see_other
from valetkey.web.form import Form, read_form, read_query
from valetkey.web.router import Body, Route

CONFIRM = "/account/confirm"
"""Where users confirm who they are."""

_PURPOSE = "account"
_NO_FORM = Form({})


class Met(Protocol):
    """What a requirement yields at least: the request, whose it is, and headers for its page."""

    @property
    def request(self) -> Request:
        """The HTTP request."""
        ...

    @property
    def user(self) -> User:
        """The signed-in user."""
        ...

    @property
    def headers(self) -> Pairs:
        """Headers of the page that answers."""
        ...


R = TypeVar("R", bound=Met)


@dataclass(frozen=True, slots=True)
class SignedInRequest:
    """A request of a signed-in user; its form, if it has one, came from a page of this server.

    `browser` is the cookie of this browser. `csrf` is the token for the forms of the page that
    answers, and `headers` are set on that page.
    """

    request: Request
    signed_in: SignedIn
    browser: str
    csrf: str
    headers: Pairs = ()
    form: Form = _NO_FORM

    @property
    def user(self) -> User:
        """The signed-in user."""
        return self.signed_in.user

    @property
    def session(self) -> Session:
        """The session of this browser."""
        return self.signed_in.session

    @property
    def actor(self) -> DoneBy:
        """The user as the actor of events."""
        return by_user(self.user.uid)

    @property
    def now(self) -> Instant:
        """When the request arrived."""
        return self.request.at

    @property
    def query(self) -> Form:
        """The parameters of the address. Raises Refused for a malformed query."""
        return read_query(self.request.query)

    @property
    def arguments(self) -> Mapping[str, str]:
        """The segments of the address that the path of the page names in braces, as they came."""
        return self.request.arguments


@dataclass(frozen=True, slots=True)
class Show:
    """Answer with a page."""

    context: Context
    status: int = 200
    headers: Pairs = ()


@dataclass(frozen=True, slots=True)
class SeeOther:
    """Redirect by GET to an address of this server."""

    to: str
    headers: Pairs = ()


@dataclass(frozen=True, slots=True)
class Download:
    """Answer with a file that the browser saves as `name`; a large one comes from `pieces`."""

    name: str
    content_type: str
    content: bytes = b""
    pieces: AsyncGenerator[bytes] | None = None


Outcome = Show | SeeOther | Download


@dataclass(frozen=True, slots=True)
class PageServer:
    """Serves the pages of an area: finds sessions, renders, and refuses with a page."""

    browsers: Browsers
    renderer: Renderer
    refuse: Refuse

    def routes(self, pages: "Sequence[AnyPage]") -> tuple[Route, ...]:
        """Return the routes of the pages of an area, each with its place in the navigation."""
        return tuple(page.route(self, navigation_of(pages, page)) for page in pages)


class Interrupt(Exception):
    """Raised by a requirement that is not met: the visitor has to go somewhere else first."""

    def __init__(self, outcome: SeeOther) -> None:
        super().__init__(outcome.to)
        self.outcome = outcome

    @property
    def response(self) -> Response:
        """The redirect to there."""
        return see_other(self.outcome.to, *self.outcome.headers)


Requirement = Callable[[Browsers, SignedInRequest], Awaitable[R]]
"""Turns a signed-in request into what the handlers of a page receive. Raises Interrupt, Refused."""


@dataclass(frozen=True, slots=True)
class Concealed(Generic[R]):
    """A requirement that hides its page from visitors whom it does not admit.

    `admits` is called before the form is read, with None for a visitor who is not signed in. It
    raises Refused (not found). Without a session it may return: then the visitor has to sign in.
    """

    admits: Callable[[Browsers, Request, SignedIn | None], None]
    meets: Requirement[R]

    async def __call__(self, browsers: Browsers, request: SignedInRequest) -> R:
        """Require the rest. Raises Interrupt."""
        return await self.meets(browsers, request)


@dataclass(frozen=True, slots=True)
class Act(Generic[R]):
    """The form of a page.

    `opaque` and `multiple` are fields as `read_form` knows them. `requires` replaces what the page
    itself requires.
    """

    perform: Callable[[R], Awaitable[Outcome]]
    opaque: Collection[str] = ()
    multiple: Collection[str] = ()
    requires: Requirement[R] | None = None


@dataclass(frozen=True, slots=True)
class Page(Generic[R]):
    """A page for signed-in users. Without `show` its address answers forms only.

    `title` is marked as translatable. The pages with `nav` are the navigation of their area, in
    their order; for another page the nearest of them above it is current, unless `under` names the
    path of one. With `hides_query` the query of its address is kept out of logs and of redirects,
    and read as `request.hidden_query`.
    """

    path: str
    requires: Requirement[R]
    show: Callable[[R], Awaitable[Outcome]] | None = None
    act: Act[R] | None = None
    title: str = ""
    nav: bool = False
    under: str = ""
    hides_query: bool = False

    def route(self, server: PageServer, navigation: Navigation) -> Route:
        """The route that answers for this page."""
        return _route(server, self, navigation)


class AnyPage(Protocol):
    """A page, whatever its handlers receive."""

    @property
    def path(self) -> str:
        """Its path, with arguments in braces."""
        ...

    @property
    def title(self) -> str:
        """Its title, to be translated; "" for a page whose template has its own."""
        ...

    @property
    def nav(self) -> bool:
        """Whether the navigation of its area leads to it."""
        ...

    @property
    def under(self) -> str:
        """The path of the page that is current in the navigation; "" for the nearest above."""
        ...

    def route(self, server: PageServer, navigation: Navigation) -> Route:
        """The route that answers for it."""
        ...


async def signed_in_request(
    browsers: Browsers, request: Request, form: Form | None = None
) -> SignedInRequest:
    """The request of a signed-in user, for endpoints that are no pages.

    Raises Interrupt for a visitor who has to sign in, Refused (forbidden) for a `form` that did not
    come from a page of this server.
    """
    return _signed_in_request(browsers, request, await browsers.signed_in(request), form)


def _signed_in_request(
    browsers: Browsers, request: Request, found: SignedIn | None, form: Form | None
) -> SignedInRequest:
    if found is None:
        # A form of a visitor who was signed out is lost; a page is shown after they signed in.
        to = safe_return_path(request.path) if form is None else ""
        raise Interrupt(SeeOther(f"{SIGN_IN}?to={to}" if to else SIGN_IN))
    browser, headers = browsers.browser(request)
    csrf = browsers.csrf(browser, _PURPOSE, found.session.id)
    if form is not None:
        browsers.check_form(
            request, form, browsers.cookies.browser(request), _PURPOSE, found.session.id
        )
    return SignedInRequest(request, found, browser, csrf, headers, form or _NO_FORM)


async def signed_in(browsers: Browsers, request: SignedInRequest) -> SignedInRequest:
    """Require that the user is signed in, and no more."""
    return request


async def confirmed(browsers: Browsers, request: SignedInRequest) -> SignedInRequest:
    """Require that the user proved who they are within ten minutes, by the strongest factor."""
    return await require_confirmed(browsers, request, "")


def confirmed_before(
    path: str,
) -> Callable[[Browsers, SignedInRequest], Awaitable[SignedInRequest]]:
    """Require recent authentication for a form; it leads back to the page at `path`."""

    async def requirement(browsers: Browsers, request: SignedInRequest) -> SignedInRequest:
        return await require_confirmed(browsers, request, path)

    return requirement


async def confirmed_if_guarded(browsers: Browsers, request: SignedInRequest) -> SignedInRequest:
    """Require the same where the account has a second factor."""
    uid = request.user.uid
    guarded = await browsers.store.read(lambda tx: tx.users.has_second_factor(uid))
    return await require_confirmed(browsers, request, "") if guarded else request


async def require_confirmed(
    browsers: Browsers, request: SignedInRequest, back: str
) -> SignedInRequest:
    """Require recent authentication inside another requirement; it leads back to `back`."""
    asks = await confirmation_needed(browsers, request.request, request.signed_in, back)
    if asks:
        raise Interrupt(SeeOther(asks, request.headers))
    return request


async def confirmation_needed(
    browsers: Browsers, request: Request, signed_in: SignedIn, to: str = ""
) -> str:
    """The address at which the user has to confirm who they are; "" if they did recently.

    Recently is within ten minutes, with a second factor if the account has one. The page leads
    back by GET, so require confirmation before a form is shown and when it is submitted.
    """
    uid = signed_in.user.uid
    guarded = await browsers.store.read(lambda tx: tx.users.has_second_factor(uid))
    if signed_in.has_proved(request.at, second_factor=guarded):
        return ""
    place = safe_return_path(to or request.path)
    return f"{CONFIRM}?to={place}" if place else CONFIRM


def nothing_there(what: str) -> Refused:
    """The refusal for what does not exist, in the same words as for what belongs to others."""
    return Refused(Refusal(ErrorCode.NOT_FOUND, f"there is no such {what}", f"account.{what}"))


def navigation_of(pages: Sequence[AnyPage], page: AnyPage | None = None) -> Navigation:
    """The navigation of an area while this page of it is shown, None for its front page."""
    listed = [each for each in pages if each.nav]
    if page is None:
        return Navigation("", tuple(MenuItem(each.path, each.title) for each in listed))
    above = (each.path for each in listed if f"{page.path}/".startswith(f"{each.path}/"))
    current = page.under or max(above, key=len, default="")
    menu = tuple(MenuItem(each.path, each.title, each.path == current) for each in listed)
    return Navigation(page.title, menu)


def _route(server: PageServer, page: Page[R], navigation: Navigation) -> Route:
    methods: dict[str, Endpoint] = {}
    show, act = page.show, page.act
    if show is not None:

        async def get(request: Request) -> Response:
            return await _answer(server, request, navigation, None, page.requires, show)

        methods |= {"GET": get, "HEAD": get}
    if act is not None:

        async def post(request: Request) -> Response:
            requires = act.requires or page.requires
            return await _answer(server, request, navigation, act, requires, act.perform)

        methods["POST"] = post
    body = Body.NONE if act is None else Body.FORM
    return Route(page.path, methods, server.refuse, body, hides_query=page.hides_query)


def _check_admission(
    requires: object, browsers: Browsers, request: Request, found: SignedIn | None
) -> None:
    if isinstance(requires, Concealed):
        requires.admits(browsers, request, found)


async def _answer(
    server: PageServer,
    request: Request,
    navigation: Navigation,
    act: Act[R] | None,
    requires: Requirement[R],
    handle: Callable[[R], Awaitable[Outcome]],
) -> Response:
    browsers = server.browsers
    found = await browsers.signed_in(request)
    _check_admission(requires, browsers, request, found)
    form = None
    if act is not None:
        browsers.check_origin(request)
        form = read_form(request.body, opaque=act.opaque, multiple=act.multiple)
    try:
        met = await requires(browsers, _signed_in_request(browsers, request, found, form))
        outcome = await handle(met)
    except Interrupt as interrupt:
        return interrupt.response
    return _respond(server.renderer, met, outcome, navigation)


def _respond(
    renderer: Renderer, visitor: Met, outcome: Outcome, navigation: Navigation
) -> Response:
    match outcome:
        case Show(context, status, headers):
            every = tuple(dict.fromkeys((*visitor.headers, *headers)))
            return renderer.page(
                visitor.request,
                context,
                status,
                user=visitor.user,
                headers=every,
                navigation=navigation,
            )
        case SeeOther(to, headers):
            return see_other(to, *headers)
        case Download(name, content_type, content, pieces):
            disposition = ("content-disposition", f'attachment; filename="{name}"')
            if pieces is not None:
                no_store = ("cache-control", "no-store")
                return Response(
                    200, b"", (("content-type", content_type), disposition, no_store), pieces
                )
            return Response(
                200, content, (("content-type", f"{content_type}; charset=utf-8"), disposition)
            )
