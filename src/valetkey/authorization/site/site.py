"""The site: what every page for people needs, and the few ways in which all of them answer."""


# ruff: noqa: RUF009 - sections of settings are frozen: nothing that two sites could share and change

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from valetkey.authorization.client_authentication.directory import ClientDirectory
from valetkey.authorization.email.notices import Notices
from valetkey.authorization.endpoints.authorize.request_object import RequestObjects
from valetkey.authorization.layout.brand import Brand
from valetkey.authorization.layout.brand_book import BrandBook
from valetkey.authorization.layout.contexts import AskingApp, SignedInPerson
from valetkey.authorization.layout.form_post import FormPostPage
from valetkey.authorization.layout.language_choice import kept_wish
from valetkey.authorization.layout.render import (
    PageContext,
    content_security_policy,
    render,
    scripts_of,
)
from valetkey.authorization.layout.viewer import UNNAMED, Configuration, spoken, viewer_of
from valetkey.authorization.model.account.user import User
from valetkey.authorization.model.register.client import Client
from valetkey.authorization.protocol.authorization_request import AuthorizationRequest
from valetkey.authorization.protocol.authorization_response import (
    ReturnAddress,
    answer,
    error_answer,
    redirect_to,
)
from valetkey.authorization.protocol.csrf import check_csrf_token, check_origin, csrf_token
from valetkey.authorization.protocol.response_type import ResponseMode
from valetkey.authorization.sign_in.cookies import Cookies
from valetkey.authorization.sign_in.factors.proof import Factors
from valetkey.authorization.sign_in.session import Present, SignedIn, find_present
from valetkey.authorization.storage.records import DecisionQueue
from valetkey.authorization.storage.transaction import Store
from valetkey.authorization.tokens.id_token_hint import IdTokenHints
from valetkey.authorization.tokens.issue import TokenPolicy
from valetkey.authorization.tokens.subject import Subjects
from valetkey.config.sections.accounts import AccountSettings
from valetkey.config.sections.administration import AdministrationSettings
from valetkey.config.sections.factors import FactorSettings
from valetkey.config.sections.portal import PortalSettings
from valetkey.config.settings import SessionSettings
from valetkey.kernel.keyring import Keyring
from valetkey.kernel.moment import Instant, Lifetime
from valetkey.kernel.refusal import Refusal
from valetkey.kernel.secret import Prefix, fresh_secret, to_base64url
from valetkey.kernel.url import origin
from valetkey.web.exchange import Pairs, Request, Response, html_response, redirect
from valetkey.web.form import Form

AUTHORIZE = "/oauth/authorize"
SIGN_IN = "/oauth/sign-in"
CONSENT = "/oauth/consent"
SECOND_FACTOR = "/oauth/second-factor"
SWITCH_ACCOUNT = "/oauth/switch-account"
SIGN_OUT = "/oauth/sign-out"
START = "/oauth/start"
HOME = "/"
LANGUAGE = "/language"
APPS = "/account/apps"
END_APP = "/account/apps/end"
END_APPS = "/account/apps/end-all"
SESSIONS = "/account/sessions"
SECURITY = "/account/security"
ACTIVITY = "/account/activity"
DEVELOPER = "/developer"
NEW_APP = "/developer/new"

_NO_REFERRER = ("referrer-policy", "no-referrer")


@dataclass(frozen=True, slots=True)
class Site:
    """Everything shared. `issuer` is this server's URL, `scopes` says what each scope means."""

    issuer: str
    store: Store
    directory: ClientDirectory
    keyring: Keyring
    sessions: SessionSettings
    policy: TokenPolicy
    code_lifetime: Lifetime
    brands: BrandBook
    decisions: DecisionQueue
    random: Callable[[int], bytes]
    scopes: Mapping[str, str]
    requests: RequestObjects
    hints: IdTokenHints
    factor_settings: FactorSettings = FactorSettings()
    administration: AdministrationSettings = AdministrationSettings()
    portal: PortalSettings = PortalSettings()
    accounts: AccountSettings = AccountSettings()
    notices: Notices | None = None
    configuration: Configuration = UNNAMED
    is_federated: bool = False
    """Whether there are other servers at which people may sign in."""

    @property
    def brand(self) -> Brand:
        """Whose pages these are at this moment."""
        return self.brands.current

    @property
    def subjects(self) -> Subjects:
        """By what name each client knows a person."""
        return Subjects(self.keyring.fingerprint_key)

    @property
    def cookies(self) -> Cookies:
        """How this server's cookies are called and sent."""
        return Cookies(self.issuer.startswith("https://"), self.keyring.fingerprint_key)

    @property
    def factors(self) -> Factors:
        """The judge of what people show beside their password."""
        name = self.brand.name
        return Factors(self.issuer, name, self.keyring, self.random, self.factor_settings)

    def page(
        self,
        request: Request,
        page: PageContext,
        status: int = 200,
        *,
        user: User | None = None,
        returns_to: str = "",
        headers: Pairs = (),
    ) -> Response:
        """A page for who asked, `user` if it is theirs; its forms may end at `returns_to`."""
        policy = content_security_policy(returns_to=returns_to, scripts=bool(scripts_of(page)))
        viewer = viewer_of(
            request,
            user,
            self.portal,
            languages=self.brand.languages,
            configuration=self.configuration,
        )
        body = render(page, brand=self.brand, viewer=viewer)
        wish = kept_wish(request, self.brand.languages, secure=self.cookies.secure)
        return html_response(body, status, policy, (*spoken(viewer), *wish, *headers))

    def goes_to(self, url: str, *headers: tuple[str, str]) -> Response:
        """The browser is sent there and tells nobody where it comes from."""
        return redirect(url, (_NO_REFERRER, *headers))

    def back(
        self, returns: ReturnAddress, refusal: Refusal, client: Client, at: Instant
    ) -> Response:
        """The client is told no; its owner can look up why."""
        reference = self.decisions.put(refusal, endpoint=AUTHORIZE, at=at, client_id=client.id)
        pairs = error_answer(returns, self.issuer, refusal, reference)
        return self._carry(returns, pairs, client)

    def answer(self, returns: ReturnAddress, pairs: Pairs, client: Client) -> Response:
        """The client is told yes: `pairs`, its state and who says so."""
        return self._carry(returns, answer(returns, self.issuer, pairs), client)

    def _carry(self, returns: ReturnAddress, pairs: Pairs, client: Client) -> Response:
        if returns.mode is not ResponseMode.FORM_POST:
            return self.goes_to(redirect_to(returns, pairs))
        nonce = to_base64url(self.random(16))
        page = FormPostPage(returns.redirect_uri, pairs, client.name or client.id, nonce)
        policy = content_security_policy(returns_to=returns.redirect_uri, script_nonce=nonce)
        return html_response(render(page, brand=self.brand), 200, policy)

    def browser(self, request: Request) -> tuple[str, Pairs]:
        """The cookie of this browser, and the header that sets it where it has none yet."""
        known = self.cookies.browser(request)
        if known:
            return known, ()
        cookie = fresh_secret(Prefix.BROWSER, self.random)
        return cookie.reveal(), (self.cookies.set_browser(cookie),)

    def csrf(self, browser: str, purpose: str, *about: str) -> str:
        """The token of a form in this browser."""
        return csrf_token(self.keyring.fingerprint_key, browser, purpose, *about)

    def check_form(
        self, request: Request, form: Form, browser: str, purpose: str, *about: str
    ) -> None:
        """Refuse with `forbidden` a form that was not sent from a page of ours to this browser."""
        self.check_origin(request)
        expected = self.csrf(browser, purpose, *about)
        check_csrf_token(expected, form.all("csrf") if browser else ())

    def check_origin(self, request: Request) -> None:
        """Refuse with `forbidden` what a browser says came from another site."""
        check_origin(request.headers, origin(self.issuer))

    async def signed_in(self, request: Request) -> SignedIn | None:
        """Who is signed in in this browser; that they were here is noted once a minute."""
        present = await self.present(request, "")
        return None if present is None else present.signed_in

    async def present(self, request: Request, client_id: str) -> Present | None:
        """The same, with what they allow this client."""
        cookie = self.cookies.session(request)
        if not cookie:
            return None
        key, sessions, now = self.keyring.fingerprint_key, self.sessions, request.at
        found = await self.store.read(
            lambda tx: find_present(tx, cookie, client_id, key, sessions, now)
        )
        if found is not None and found.signed_in.is_stale(now):
            seen = found.signed_in.session.id
            await self.store.write(lambda tx: tx.sessions.touch(seen, now))
        return found


def logo_of(client: Client) -> str:
    """The path of our copy of an app's logo; "" where it is shown by its initial."""
    return f"/logos/{client.logo}" if client.logo and client.may_show_logo else ""


def asking_app(client: Client, asked: AuthorizationRequest, *, signed_in: bool) -> AskingApp:
    """The client as a user sees it, with the host that will get the answer.

    Before a user has signed in, only a verified app shows its logo and its links.
    """
    place = origin(asked.returns.redirect_uri)
    is_shown = signed_in or client.verified_at is not None
    return AskingApp(
        name=client.name or client.id,
        domain=place.partition("://")[2] or place,
        logo_url=logo_of(client) if is_shown else "",
        policy_url=client.policy_uri if is_shown else "",
        terms_url=client.tos_uri if is_shown else "",
        verified=client.verified_at is not None,
        self_registered=client.self_registered,
    )


def shown_person(signed_in: SignedIn) -> SignedInPerson:
    """The person as the pages name them."""
    user = signed_in.user
    return SignedInPerson(user.username, user.name, user.email)
