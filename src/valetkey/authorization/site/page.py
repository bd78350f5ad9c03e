"""Pages: their routes, forms and contexts; pages of lists.

A feature declares the address, the requirement, the content and the form of a page. Sessions,
recent authentication, CSRF, form parsing, status and headers are handled here. A handler receives
a request that meets the requirement and returns an outcome.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from typing import Generic, Protocol, TypeVar
from urllib.parse import urlencode

from msgspec import Struct

from valetkey.authorization.authentication.browsers import Browsers, coming_from
from valetkey.authorization.authentication.session import SignedIn
from valetkey.authorization.layout.addresses import (
    REQUIRED_FACTOR,
    SIGN_IN,
    returning_to,
    safe_return_path,
)
from valetkey.authorization.layout.render import PageContext as Context
from valetkey.authorization.layout.viewer import DeclaredPage, Menu, Navigation
from valetkey.authorization.model.event.event import DoneBy, by_user
from valetkey.authorization.model.user import Session, User
from valetkey.authorization.site.presentation import Renderer
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.web.body import Form, read_form, read_multipart, read_parameters, read_query
from valetkey.web.exchange import (
    READS,
    Endpoint,
    Interrupt,
    Pairs,
    Refuse,
    Request,
    Response,
    see_other,
)
from valetkey.web.router import Body, Route

CONFIRM = "/account/confirm"
"""The page on which users confirm who they are."""

_NO_FORM = Form({})


R = TypeVar("R", bound="VisitorRequest")


class VisitorRequest(Struct, frozen=True):
    """A request of a visitor; its form, if it has one, came from a page of this server.

    `browser` is the cookie of this browser. `csrf` is the token for the forms of the page that
    answers, and `headers` are set on that page.
    """

    request: Request
    browser: str = ""
    csrf: str = ""
    headers: Pairs = ()
    form: Form = _NO_FORM

    @property
    def viewer(self) -> User | None:
        """The signed-in user for whom the page is rendered; None on pages that ignore it."""
        return None

    @property
    def now(self) -> Instant:
        """The time of the request."""
        return self.request.at

    @property
    def query(self) -> Form:
        """The parameters of the address. Raises Refused for a malformed query."""
        return read_query(self.request.query)

    @property
    def arguments(self) -> Mapping[str, str]:
        """The segments of the path that the page names in braces, not decoded."""
        return self.request.arguments


class SignedInRequest(VisitorRequest, frozen=True, kw_only=True):
    """A request of a signed-in user."""

    signed_in: SignedIn

    @property
    def viewer(self) -> User | None:
        """The signed-in user."""
        return self.user

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


class Show(Struct, frozen=True):
    """Respond with a page; its forms may redirect to `returns_to`, and it may embed `frames`."""

    context: Context
    status: int = 200
    headers: Pairs = ()
    returns_to: str = ""
    frames: Sequence[str] = ()


class SeeOther(Struct, frozen=True):
    """Redirect with GET and without a Referer header."""

    to: str
    headers: Pairs = ()

    @property
    def response(self) -> Response:
        """Return the redirect as a response, for Interrupt."""
        return see_other(self.to, *self.headers)


class Download(Struct, frozen=True):
    """Respond with a file that the browser saves as `name`; a large one comes from `pieces`."""

    name: str
    content_type: str
    content: bytes = b""
    pieces: AsyncGenerator[bytes] | None = None


Outcome = Show | SeeOther | Download


def retry_after(seconds: int) -> Pairs:
    """Return the Retry-After header; none for 0."""
    return (("retry-after", str(seconds)),) if seconds else ()


class PageServer(Struct, frozen=True):
    """Serves the pages of an area: finds sessions, renders, refuses with a page."""

    browsers: Browsers
    renderer: Renderer
    refuse: Refuse

    def routes(self, pages: "Sequence[AnyPage]") -> tuple[Route, ...]:
        """Return the routes of the pages of an area, each with its place in the navigation."""
        menu = Menu(pages)
        return tuple(page.route(self, menu.navigation(page)) for page in pages)


class PageVisit(Struct, frozen=True):
    """A request for a page whose requirement is not checked yet.

    `reads` says how its form is parsed.
    """

    browsers: Browsers
    request: Request
    reads: "Reads | None" = None

    def form(self) -> Form | None:
        """Return the submitted form, None for GET. Raises Refused if it is malformed or foreign."""
        if self.reads is None:
            return None
        if not self.reads.foreign:
            self.browsers.check_origin(self.request)
        if self.reads.upload:
            return read_multipart(self.request.headers.get("content-type"), self.request.body)
        # Another site's form has the parameters of a protocol.
        read = read_parameters if self.reads.foreign else read_form
        return read(self.request.body, opaque=self.reads.opaque, multiple=self.reads.multiple)


class Reads(Protocol):
    """How a form is read: `opaque` and `multiple` are fields as for `read_form`.

    A `foreign` form may be posted by any site. One with `upload` has files.
    """

    @property
    def opaque(self) -> Collection[str]:
        """Fields whose text is not restricted."""
        ...

    @property
    def multiple(self) -> Collection[str]:
        """Fields that may be repeated."""
        ...

    @property
    def foreign(self) -> bool:
        """Whether the form may come from another site."""
        ...

    @property
    def upload(self) -> int:
        """Maximum size of a form with files; 0 for a form without."""
        ...


Requirement = Callable[[PageVisit], Awaitable[R]]
"""Turns a visit into the request that handlers receive. Raises Interrupt and Refused."""


class Act(Struct, Generic[R], frozen=True):
    """The form handler of a page, with the form read as `Reads` says.

    `requires` overrides the page's requirement.
    """

    perform: Callable[[R], Awaitable[Outcome]]
    opaque: Collection[str] = ()
    multiple: Collection[str] = ()
    foreign: bool = False
    requires: Requirement[R] | None = None
    upload: int = 0


class Page(Struct, Generic[R], frozen=True):
    """A page: path, requirement and handlers. Without `show` it answers form posts only.

    `title` is marked as translatable; the context that is shown may have another. Pages with `nav`
    are the navigation of their area, in this order, below the heading that it names; for any other
    page the nearest one above it is current, or that at the path `under`. `docs` is its page of the
    documentation, and of those below it. One that `searches` is the search of its area: every page
    of the area links to it.
    With `hides_query` the query of its URL is kept out of logs and redirects, and is
    `request.hidden_query`. HEAD is refused where GET is a `step`.
    """

    path: str
    requires: Requirement[R]
    show: Callable[[R], Awaitable[Outcome]] | None = None
    act: Act[R] | None = None
    title: str = ""
    nav: bool | str = False
    under: str = ""
    docs: str = ""
    searches: bool = False
    hides_query: bool = False
    step: bool = False

    def route(self, server: PageServer, navigation: Navigation) -> Route:
        """Return the route that answers for this page; its endpoints are documented by handlers."""
        return _route(server, self, navigation)


class AnyPage(DeclaredPage, Protocol):
    """A page of any request type."""

    def route(self, server: PageServer, navigation: Navigation) -> Route:
        """Return the route that answers for this page."""
        ...


async def anyone(visit: PageVisit) -> VisitorRequest:
    """Require nothing; the page has no form of its own."""
    return VisitorRequest(visit.request, form=visit.form() or _NO_FORM)


def visitor(purpose: str, *about: str) -> Requirement[VisitorRequest]:
    """Require that a form came from a page of this server with this purpose, in this browser."""

    async def requirement(visit: PageVisit) -> VisitorRequest:
        return visitor_request(visit, visit.form(), purpose, *about)

    return requirement


def visitor_request(
    visit: PageVisit,
    form: Form | None,
    purpose: str,
    *about: str,
    form_about: Sequence[str] | None = None,
) -> VisitorRequest:
    """Return the request of a visitor whose `form`, if there is one, is checked.

    Raises Refused (forbidden) for a form of another browser, purpose or subject: `form_about`,
    where that is not what the next page is about (`about`).
    """
    browsers, request = visit.browsers, visit.request
    if form is not None:
        subject = about if form_about is None else form_about
        browsers.check_form(request, form, browsers.cookies.browser(request), purpose, *subject)
    browser, headers = browsers.browser(request)
    csrf = browsers.csrf(browser, purpose, *about)
    return VisitorRequest(request, browser, csrf, headers, form or _NO_FORM)


async def signed_in(visit: PageVisit) -> SignedInRequest:
    """Require that the user is signed in, and has a second factor if one is required of them."""
    return signed_in_request(visit, await visit.browsers.signed_in(visit.request))


async def signed_in_to_add_factor(visit: PageVisit) -> SignedInRequest:
    """Require that the user is signed in: for the pages on which they add a required factor."""
    user_session = await visit.browsers.signed_in(visit.request)
    return signed_in_request(visit, user_session, adds_factor=True)


def signed_in_request(
    visit: PageVisit, user_session: SignedIn | None, *, adds_factor: bool = False
) -> SignedInRequest:
    """Return the request of a signed-in user.

    Raises Interrupt for a visitor who has to sign in, and for a user who has to add a second factor
    unless the page `adds_factor`.
    """
    form = visit.form()
    if user_session is None:
        # The form of a signed-out user is lost; a page is shown once they have signed in.
        to = _here(visit.request) if form is None else ""
        raise Interrupt(see_other(returning_to(SIGN_IN, to)))
    if user_session.must_add_factor and not adds_factor:
        to = _here(visit.request) if form is None else ""
        raise Interrupt(see_other(returning_to(REQUIRED_FACTOR, to)))
    # A token counts in its own area only: one of the account does nothing in the console.
    area = visit.request.path.split("/")[1]
    it = visitor_request(visit, form, area, user_session.session.id)
    return SignedInRequest(
        it.request, it.browser, it.csrf, it.headers, it.form, signed_in=user_session
    )


async def confirmed(visit: PageVisit) -> SignedInRequest:
    """Require that the user proved who they are within ten minutes, by the strongest factor."""
    return await require_confirmed(visit.browsers, await signed_in(visit), "")


async def confirmed_to_add_factor(visit: PageVisit) -> SignedInRequest:
    """Require the same on the pages on which a user adds a required factor."""
    return await require_confirmed(visit.browsers, await signed_in_to_add_factor(visit), "")


def confirmed_before(path: str) -> Requirement[SignedInRequest]:
    """Require recent authentication for a form; the user returns to the page at `path`."""

    async def requirement(visit: PageVisit) -> SignedInRequest:
        return await require_confirmed(visit.browsers, await signed_in(visit), path)

    return requirement


async def confirmed_if_guarded(visit: PageVisit) -> SignedInRequest:
    """Require recent authentication if the account has a second factor."""
    request, store = await signed_in(visit), visit.browsers.store
    uid = request.user.uid
    guarded = await store.read(lambda tx: tx.users.has_second_factor(uid))
    return await require_confirmed(visit.browsers, request, "") if guarded else request


async def require_confirmed(
    browsers: Browsers, request: SignedInRequest, back: str
) -> SignedInRequest:
    """Require recent authentication inside another requirement; the user returns to `back`."""
    asks = await confirmation_needed(browsers, request, back)
    if asks:
        raise Interrupt(see_other(asks, *request.headers))
    return request


async def confirmation_needed(browsers: Browsers, request: SignedInRequest, to: str = "") -> str:
    """Return the URL of the confirmation page; "" after recent authentication.

    Recently is within ten minutes, with a second factor if the account has one. The page leads
    back by GET, so require confirmation before a form is shown and when it is submitted: that page
    says that nothing has changed yet.
    """
    uid = request.user.uid
    guarded = await browsers.store.read(lambda tx: tx.users.has_second_factor(uid))
    if request.signed_in.has_proved(request.now, second_factor=guarded):
        return ""
    visited = request.request
    back = safe_return_path(to) or _here(visited)
    return confirmation_page(back, repeats=visited.method not in READS)


def confirmation_page(to: str, *, repeats: bool) -> str:
    """Return the address of `CONFIRM`: whether a form for `to` has to be submitted again."""
    address = returning_to(CONFIRM, to)
    return f"{address}&repeat=yes" if to and repeats else address


def _here(request: Request) -> str:
    """Return the address of the request, for returning to it; without its query if that is odd."""
    address = f"{request.path}?{request.query}" if request.query else request.path
    return safe_return_path(address) or safe_return_path(request.path)


MISSING = "this {} does not exist"
"""The sentence about an object; the catalogue has it for each kind of object."""


def not_found(what: str) -> Refused:
    """Return the refusal of an object that does not exist or belongs to another user."""
    return Refused.because(ErrorCode.NOT_FOUND, MISSING.format(what), f"account.{what}")


def _route(server: PageServer, page: Page[R], navigation: Navigation) -> Route:
    methods: dict[str, Endpoint] = {}
    show, act = page.show, page.act
    if show is not None:

        async def get(request: Request) -> Response:
            with coming_from(request):
                met = await page.requires(PageVisit(server.browsers, request))
                return _respond(server.renderer, met, await show(met), navigation)

        get.__doc__ = show.__doc__
        methods["GET"] = get
    if act is not None:

        async def post(request: Request) -> Response:
            requires = act.requires or page.requires
            with coming_from(request):
                met = await requires(PageVisit(server.browsers, request, act))
                return _respond(server.renderer, met, await act.perform(met), navigation)

        post.__doc__ = act.perform.__doc__
        methods["POST"] = post
    limit = 0 if act is None else act.upload
    body = Body.NONE if act is None else Body.UPLOAD if limit else Body.FORM
    hides = page.hides_query
    return Route(
        page.path, methods, server.refuse, body, hides_query=hides, limit=limit, step=page.step
    )


def _respond(
    renderer: Renderer, met: VisitorRequest, outcome: Outcome, navigation: Navigation
) -> Response:
    match outcome:
        case Show():
            return renderer.page(
                met.request,
                outcome.context,
                outcome.status,
                user=met.viewer,
                returns_to=outcome.returns_to,
                frames=outcome.frames,
                headers=tuple(dict.fromkeys((*met.headers, *outcome.headers))),
                navigation=navigation,
                csrf=met.csrf,
            )
        case SeeOther():
            return outcome.response
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


_APART = "~"
_GAP = "-"
_LONGEST = 2_000


class Figure(Struct, frozen=True):
    """A count; with `more`, a lower bound."""

    count: int
    more: bool = False


def at_most(count: int | None, most: int) -> Figure | None:
    """Return the figure of a count that ended at `most` + 1; None for no count."""
    if count is None:
        return None
    return Figure(most, more=True) if count > most else Figure(count)


class Paging(Struct, frozen=True):
    """The addresses of other pages of a list, "" for none; and how many entries all pages have.

    `total` is None where they are not counted.
    """

    first: str = ""
    previous: str = ""
    next: str = ""
    total: Figure | None = None


TIME = "time"
"""The name of a column of times."""


class Heading(Struct, frozen=True):
    """The heading of a column that sorts its list.

    `url` shows the list sorted by it, the other way round where it is already. `direction` is that
    of the shown list, as in `aria-sort`; "" if it is sorted by another column.
    """

    url: str
    direction: str = ""


def sort_headings(
    address: str, parameters: Mapping[str, str], order: str, columns: Mapping[str, tuple[str, str]]
) -> dict[str, Heading]:
    """Return the headings by column.

    `columns` has the orders of each column, ascending and descending; `order` is that of the shown
    list. A list of times begins with the latest, any other ascending. `said` are the other
    parameters of the list.
    """
    headings: dict[str, Heading] = {}
    for column, orders in columns.items():
        first, second = orders[::-1] if column == TIME else orders
        chosen = second if order == first else first
        direction = dict(zip(orders, ("ascending", "descending"), strict=True)).get(order, "")
        headings[column] = Heading(_address(address, {**parameters, "sort": chosen}), direction)
    return headings


ONE_PAGE = Paging()
"""A list without other pages."""


def pages_beside(
    address: str,
    parameters: Mapping[str, str],
    query: Form,
    more: str,
    *,
    total: Figure | None = None,
    name: str = "after",
) -> Paging:
    """Return the pages beside the one that `query` asked for.

    `said` are the other parameters of the list, `more` the cursor of the next page, "" for none. A
    cursor leads forward only, so the address has those of the pages before it in `back`, as many as
    fit; the first of them is `_GAP` where some did not.
    """
    here, back = query.get(name) or "", (query.get("back") or "")[:_LONGEST]
    trail = back.split(_APART) if back and here else []

    def page(after: str, before: list[str]) -> str:
        return _address(address, {**parameters, name: after, "back": _APART.join(before)})

    first = page("", []) if here else ""
    previous = page(trail[-1], trail[:-1]) if trail else first
    following = page(more, _shortened([*trail, here]) if here else []) if more else ""
    return Paging(first, "" if trail[-1:] == [_GAP] else previous, following, total)


def _address(address: str, parameters: Mapping[str, str]) -> str:
    text = urlencode({word: value for word, value in parameters.items() if value})
    return f"{address}?{text}" if text else address


def _shortened(trail: list[str]) -> list[str]:
    while len(_APART.join(trail)) > _LONGEST:
        trail = [_GAP, *trail[2:]]
    return trail
