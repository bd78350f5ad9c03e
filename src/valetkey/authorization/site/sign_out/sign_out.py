"""GET and POST /oauth/sign-out: ask first, so that no link can do it; then end the session."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.actions.logout import SignOut
from valetkey.authorization.authentication.browsers import Browsers
from valetkey.authorization.authentication.session import SignedIn, find_unended
from valetkey.authorization.layout.addresses import SIGN_OUT
from valetkey.authorization.layout.contexts import SignedInPerson
from valetkey.authorization.layout.render import content_security_policy, render
from valetkey.authorization.layout.viewer import spoken, viewer_of
from valetkey.authorization.model.session import Session
from valetkey.authorization.site.presentation import Renderer, shown_person
from valetkey.kernel.url import origin
from valetkey.web.exchange import Pairs, Request, Response, html_response, see_other
from valetkey.web.form import Form, read_form


@dataclass(frozen=True, slots=True)
class SignOutPage:
    """Ask before signing out, so that no link can do it for you.

    Posts `csrf`, `session` and `fields`. `app_name` is that of the app that asks, "" where the
    person came by themselves. Without `person` the session is too old to say whose it is.
    """

    template: ClassVar[str] = "sign_out/sign_out.html"

    action: str
    csrf: str
    session: str
    person: SignedInPerson | None
    app_name: str = ""
    fields: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class SignedOutPage:
    """Say that one is signed out.

    `returns_to` is where the person goes from here, by themselves after a moment. `unreturned`
    says why they go nowhere although an app asked for that (a value of `Unreturned`), `reference`
    names the record which says more. `frames` are addresses of apps, told by being shown.
    """

    template: ClassVar[str] = "sign_out/signed_out.html"

    returns_to: str = ""
    unreturned: str = ""
    reference: str = ""
    frames: tuple[str, ...] = ()


PURPOSE = "sign-out"
"""The purpose of the form's token."""

_SHOWN = 3
"""Seconds for which the page with the frames of apps stays."""


@dataclass(frozen=True, slots=True)
class WayOut:
    """Where the button leads: who asks for it, and the address or page it ends at.

    `returns_to` is "" for our own page, `unreturned` then says why it is ours although the app
    asked for another; `reference` is that of the record which says more.
    """

    app_name: str = ""
    returns_to: str = ""
    unreturned: str = ""
    reference: str = ""

    @property
    def fields(self) -> Pairs:
        """What the form takes along."""
        return (
            ("returns_to", self.returns_to),
            ("unreturned", self.unreturned),
            ("reference", self.reference),
        )

    @property
    def values(self) -> tuple[str, ...]:
        """The same for the form's token, so that none of it can be another's."""
        return tuple(value for _, value in self.fields)

    @staticmethod
    def of(form: Form) -> "WayOut":
        """What the form took along, to be believed once its token was checked."""
        values = (form.get(name) or "" for name in ("returns_to", "unreturned", "reference"))
        return WayOut("", *values)


NOWHERE = WayOut()
"""Somebody came by themselves and stays."""


@dataclass(frozen=True, slots=True)
class SignOutEndpoint:
    """The way out, for whoever comes by themselves and for whoever an app sends."""

    browsers: Browsers
    renderer: Renderer
    deed: SignOut

    async def get(self, request: Request) -> Response:
        """The question; or, where nobody is signed in, that it is done."""
        return await self.ask(request, NOWHERE)

    async def ask(self, request: Request, way: WayOut) -> Response:
        """The question, or where nobody is signed in, the end of the way."""
        signed_in = await self.browsers.signed_in(request)
        session = signed_in.session if signed_in else await self._unended(request)
        if session is None:
            forget = self.browsers.cookies.end() if self.browsers.cookies.session(request) else ()
            if way.returns_to:
                return see_other(way.returns_to, *forget)
            return self._signed_out(request, way, (), forget)
        browser, headers = self.browsers.browser(request)
        page = SignOutPage(
            action=SIGN_OUT,
            csrf=self.browsers.csrf(browser, PURPOSE, session.id, *way.values),
            session=session.id,
            person=shown_person(signed_in) if signed_in else None,
            app_name=way.app_name,
            fields=way.fields,
        )
        return self.renderer.page(request, page, returns_to=way.returns_to, headers=headers)

    async def post(self, request: Request) -> Response:
        """End the session, the grants that were to end with it, and the cookies; tell the apps."""
        self.browsers.check_origin(request)
        form = read_form(request.body)
        way = WayOut.of(form)
        session = await self._unended(request)
        # Who pressed twice has no session any more and still goes where the first press led.
        about = session.id if session is not None else form.get("session") or ""
        forget = self.browsers.cookies.end()
        if not about:
            return see_other(SIGN_OUT, *forget)
        browser = self.browsers.cookies.browser(request)
        self.browsers.check_form(request, form, browser, PURPOSE, about, *way.values)
        frames = () if session is None else await self.deed.end(session, request.at)
        if frames or way.unreturned:
            return self._signed_out(request, way, frames, forget)
        return see_other(way.returns_to or SIGN_OUT, *forget)

    async def _unended(self, request: Request) -> Session | None:
        cookie, now = self.browsers.cookies.session(request), request.at
        if not cookie:
            return None
        key = self.browsers.keyring.fingerprint_key
        return await self.browsers.store.read(lambda tx: find_unended(tx, cookie, key, now))

    def _signed_out(
        self, request: Request, way: WayOut, frames: Sequence[str], headers: Pairs
    ) -> Response:
        page = SignedOutPage(way.returns_to, way.unreturned, way.reference, tuple(frames))
        policy = content_security_policy()
        if frames and way.returns_to:
            # The header, for it needs no script: frames have so long to load.
            headers = (*headers, ("refresh", f"{_SHOWN}; url={way.returns_to}"))
        if frames:
            policy = f"{policy}; frame-src {' '.join(dict.fromkeys(map(origin, frames)))}"
        viewer = viewer_of(request, languages=self.renderer.brands.current.languages)
        body = render(page, brand=self.renderer.brands.current, viewer=viewer)
        return html_response(body, 200, policy, (*spoken(viewer), *headers))


def csrf_to_sign_out(browsers: Browsers, browser: str, signed_in: SignedIn) -> str:
    """The token of a button elsewhere on our pages that signs out and stays."""
    return browsers.csrf(browser, PURPOSE, signed_in.session.id, *NOWHERE.values)
