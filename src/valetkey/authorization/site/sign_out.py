"""/oauth/sign-out: end the session after a confirmation."""

from collections.abc import Sequence
from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.actions.logout import SignOut
from valetkey.authorization.authentication.browsers import Browsers, Cookies
from valetkey.authorization.authentication.session import SignedIn, find_unended
from valetkey.authorization.endpoints.authorize.pending import Server
from valetkey.authorization.layout.addresses import SIGN_OUT
from valetkey.authorization.layout.contexts import CurrentUser
from valetkey.authorization.model.client import Client
from valetkey.authorization.model.user import Session
from valetkey.authorization.protocol.logout import (
    PARAMETERS,
    LogoutDecision,
    LogoutRequest,
    NotRedirected,
    decide_logout,
)
from valetkey.authorization.site.page import (
    Act,
    AnyPage,
    Outcome,
    Page,
    PageVisit,
    SeeOther,
    Show,
    VisitorRequest,
    visitor_request,
)
from valetkey.authorization.site.presentation import shown_user
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.text import translatable
from valetkey.kernel.url import encode_pairs
from valetkey.web.body import Form, read_parameters
from valetkey.web.exchange import Interrupt, Pairs, see_other


class SignOutPage(Struct, frozen=True):
    """Ask before signing out, so that no link can do it.

    Posts `csrf`, `session` and `fields`. `app_name` is the requesting app, "" without one. Without
    `person` the session is too old to identify its user.
    """

    template: ClassVar[str] = "sign_out/sign_out.html"
    title: ClassVar[str] = translatable("Sign out")

    action: str
    session: str
    person: CurrentUser | None
    app_name: str = ""
    fields: tuple[tuple[str, str], ...] = ()


class SignedOutPage(Struct, frozen=True):
    """Confirm that the user is signed out.

    `returns_to` is the app's URL, opened automatically after a moment. `unreturned` says why there
    is none although an app requested it (a value of `NotRedirected`); `reference` names its
    decision record. `frames` are the apps' front-channel logout URLs.
    """

    template: ClassVar[str] = "sign_out/signed_out.html"
    title: ClassVar[str] = translatable("You are signed out")

    returns_to: str = ""
    unreturned: str = ""
    reference: str = ""
    frames: tuple[str, ...] = ()


PURPOSE = "sign-out"
"""The purpose of the form's CSRF token."""

_SHOWN = 3
"""Seconds for which the page with the frames of apps is shown."""


class SignOutTarget(Struct, frozen=True):
    """The requesting app of a sign-out, and the URL where it ends.

    `returns_to` is "" for this server's own page; `unreturned` then says why, if the app requested
    another, and `reference` names the decision record.
    """

    app_name: str = ""
    returns_to: str = ""
    unreturned: str = ""
    reference: str = ""

    @property
    def fields(self) -> Pairs:
        """Return the hidden fields of the form."""
        return (
            ("returns_to", self.returns_to),
            ("unreturned", self.unreturned),
            ("reference", self.reference),
        )

    @property
    def values(self) -> tuple[str, ...]:
        """Return the hidden fields' values, to which the form's CSRF token is bound."""
        return tuple(value for _, value in self.fields)

    @staticmethod
    def from_form(form: Form) -> "SignOutTarget":
        """Parse the hidden fields; trust them only after checking the CSRF token."""
        values = (form.get(name) or "" for name in ("returns_to", "unreturned", "reference"))
        return SignOutTarget("", *values)


NOWHERE = SignOutTarget()
"""The target of a user who opened the page directly and stayed signed in."""


class SignOutRequest(VisitorRequest, frozen=True, kw_only=True):
    """A request to sign out: the session in this browser, if any, and the redirect afterwards."""

    session: Session | None
    way: SignOutTarget
    person: CurrentUser | None = None


class SignOutPages(Struct, frozen=True):
    """Ask for confirmation and sign out; opened directly or by an app."""

    cookies: Cookies
    sign_out: SignOut

    def pages(self) -> tuple[AnyPage, ...]:
        """Return the page of this feature."""
        end = Act(self.end, requires=_pressed)
        return (Page(SIGN_OUT, self._alone, self.show, end, step=True),)

    async def show(self, request: SignOutRequest) -> Outcome:
        """Ask for confirmation; without a session, show the end or redirect to the app."""
        session, way = request.session, request.way
        if session is None:
            forget = self.cookies.end() if self.cookies.session(request.request) else ()
            if way.returns_to:
                return SeeOther(way.returns_to, forget)
            return _signed_out(way, (), forget)
        page = SignOutPage(
            action=SIGN_OUT,
            session=session.id,
            person=request.person,
            app_name=way.app_name,
            fields=way.fields,
        )
        return Show(page, returns_to=way.returns_to)

    async def end(self, request: SignOutRequest) -> Outcome:
        """End the session, the grants bound to it, and the cookies; notify the apps."""
        session, way, forget = request.session, request.way, self.cookies.end()
        frames = () if session is None else await self.sign_out.end(session, request.now)
        if frames or way.unreturned:
            return _signed_out(way, frames, forget)
        return SeeOther(way.returns_to or SIGN_OUT, forget)

    async def _alone(self, visit: PageVisit) -> SignOutRequest:
        return await sign_out_request(visit, NOWHERE)


async def sign_out_request(visit: PageVisit, way: SignOutTarget) -> SignOutRequest:
    """Find the session that the visitor may end, and prepare the form that ends it."""
    browsers, request = visit.browsers, visit.request
    signed_in = await browsers.signed_in(request)
    session = signed_in.session if signed_in else await _unended(visit)
    if session is None:
        return SignOutRequest(request, session=None, way=way)
    it = visitor_request(visit, None, PURPOSE, session.id, *way.values)
    person = shown_user(signed_in) if signed_in else None
    return SignOutRequest(
        request, it.browser, it.csrf, it.headers, session=session, way=way, person=person
    )


async def _pressed(visit: PageVisit) -> SignOutRequest:
    """Require that the form came from a page of this server, in this browser."""
    form = visit.form() or Form({})
    way, session = SignOutTarget.from_form(form), await _unended(visit)
    # A second submit finds no session and is redirected like the first one.
    about = session.id if session is not None else form.get("session") or ""
    if not about:
        raise Interrupt(see_other(SIGN_OUT, *visit.browsers.cookies.end()))
    it = visitor_request(visit, form, PURPOSE, about, *way.values)
    return SignOutRequest(
        it.request, it.browser, it.csrf, it.headers, form, session=session, way=way
    )


async def _unended(visit: PageVisit) -> Session | None:
    browsers, now = visit.browsers, visit.request.at
    cookie = browsers.cookies.session(visit.request)
    if not cookie:
        return None
    key = browsers.keyring.fingerprint_key
    return await browsers.store.read(lambda tx: find_unended(tx, cookie, key, now))


def _signed_out(way: SignOutTarget, frames: Sequence[str], headers: Pairs) -> Show:
    page = SignedOutPage(way.returns_to, way.unreturned, way.reference, tuple(frames))
    if frames and way.returns_to:
        # A header, because it works without scripts: the frames have this long to load.
        headers = (*headers, ("refresh", f"{_SHOWN}; url={way.returns_to}"))
    return Show(page, headers=headers, frames=frames)


def csrf_to_sign_out(browsers: Browsers, browser: str, signed_in: SignedIn) -> str:
    """Return the CSRF token of a sign-out button on other pages of this server."""
    return browsers.csrf(browser, PURPOSE, signed_in.session.id, *NOWHERE.values)


LOGOUT = "/oauth/logout"

_LONGEST = 7_000
_WRONG = {
    NotRedirected.HINT: "id_token_hint is not an ID token that this server issued to this app",
    NotRedirected.APP: "id_token_hint and client_id name different apps",
    NotRedirected.UNKNOWN_APP: "no registered app is named by id_token_hint or client_id",
    NotRedirected.ADDRESS: "post_logout_redirect_uri is not one that the app registered",
    NotRedirected.STATE: "state is too long or contains control characters",
}


class Logout(Struct, frozen=True):
    """The end session endpoint (RP-Initiated Logout). It always asks the user first."""

    server: Server
    leave: SignOutPages

    def pages(self) -> tuple[AnyPage, ...]:
        """Show the sign-out page. A form post of another site is treated as a link."""
        show = self.leave.show
        act = Act(show, opaque=PARAMETERS, foreign=True)
        return (Page(LOGOUT, self._asked, show, act, step=True),)

    async def _asked(self, visit: PageVisit) -> SignOutRequest:
        """Judge the request of the app; without a user, `show` redirects back to it.

        Browsers do not send our cookies with a form of another site, so a visitor without a session
        is redirected to GET, with which they are sent.
        """
        form = visit.form()
        if form is None:
            form = read_parameters(visit.request.query, opaque=PARAMETERS)
        elif not self.server.cookies.session(visit.request):
            pairs = [(name, form.get(name) or "") for name in PARAMETERS if form.get(name)]
            url = f"{LOGOUT}?{encode_pairs(pairs)}"
            raise Interrupt(see_other(url if len(url) <= _LONGEST else LOGOUT))
        return await sign_out_request(visit, await self._way(form, visit.request.at))

    async def _way(self, form: Form, now: Instant) -> SignOutTarget:
        parameters = {name: form.get(name) or "" for name in PARAMETERS}
        decision = await self._judge(LogoutRequest.from_parameters(parameters), now)
        client, reason = decision.client, decision.unreturned
        name = "" if client is None else client.name or client.id
        if reason is None:
            return SignOutTarget(name, decision.returns_to)
        refusal = Refusal(
            ErrorCode.INVALID_REQUEST,
            _WRONG[reason],
            f"logout.{reason}",
            "" if client is None else " or ".join(client.openid.post_logout_redirect_uris),
            parameters["post_logout_redirect_uri"],
        )
        reference = self.server.decisions.enqueue(
            refusal,
            endpoint=LOGOUT,
            at=now,
            client_id=None if client is None else client.id,
        )
        return SignOutTarget(name, "", reason.value, reference)

    async def _judge(self, logout_request: LogoutRequest, now: Instant) -> LogoutDecision:
        client = await self._only_client(logout_request)
        good = client is not None and await self._is_good(logout_request.id_token_hint, client, now)
        return decide_logout(logout_request, client, hint_is_good=good)

    async def _only_client(self, logout_request: LogoutRequest) -> Client | None:
        named = tuple(logout_request.named_clients)
        if len(named) != 1:
            return None
        client = await self.server.directory.find(named[0])
        return None if client is None or client.disabled_at is not None else client

    async def _is_good(self, hint: str, client: Client, now: Instant) -> bool:
        if not hint:
            return False
        try:
            await self.server.hints.read(hint, client, now)
        except Refused:
            return False
        return True
