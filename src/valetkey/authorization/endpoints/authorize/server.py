"""What the authorization endpoint and the pages that continue its requests have in common."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from valetkey.authorization.authentication.cookies import Cookies
from valetkey.authorization.authentication.session import Present, SignedIn, find_present
from valetkey.authorization.client_authentication.directory import ClientDirectory
from valetkey.authorization.endpoints.authorize.request_object import RequestObjects
from valetkey.authorization.layout.addresses import AUTHORIZE
from valetkey.authorization.layout.brand import Brand
from valetkey.authorization.layout.brand_book import BrandBook
from valetkey.authorization.layout.contexts import FormPostPage
from valetkey.authorization.layout.render import (
    content_security_policy,
    render,
)
from valetkey.authorization.model.register.client import Client
from valetkey.authorization.protocol.authorization_response import (
    ReturnAddress,
    answer,
    error_answer,
    redirect_to,
)
from valetkey.authorization.protocol.csrf import check_csrf_token, check_origin, csrf_token
from valetkey.authorization.protocol.response_type import ResponseMode
from valetkey.authorization.storage.records import DecisionQueue
from valetkey.authorization.storage.transaction import Store
from valetkey.authorization.tokens.id_token_hint import IdTokenHints
from valetkey.authorization.tokens.issue import TokenPolicy
from valetkey.authorization.tokens.subject import Subjects
from valetkey.config.settings import SessionSettings
from valetkey.kernel.keyring import Keyring
from valetkey.kernel.moment import Instant, Lifetime
from valetkey.kernel.refusal import Refusal
from valetkey.kernel.secret import Prefix, fresh_secret, to_base64url
from valetkey.kernel.url import origin
from valetkey.web.exchange import Pairs, Request, Response, html_response, redirect
from valetkey.web.form import Form

_NO_REFERRER = ("referrer-policy", "no-referrer")


@dataclass(frozen=True, slots=True)
class Server:
    """Stores, keys and policies, and the answers to browsers and to apps.

    `issuer` is the URL of this server, `scopes` has the sentence of each scope.
    """

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
