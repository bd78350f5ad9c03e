"""Parts shared by the pages of upstream providers: providers, pending sign-ins, cookies."""

from urllib.parse import urlencode

from msgspec import Struct

from valetkey.authorization.actions.account.identities import FederatedAccounts
from valetkey.authorization.authentication.federation.provider import Provider
from valetkey.authorization.authentication.federation.registry import Providers
from valetkey.authorization.authentication.federation.upstream_sign_in import (
    LIFETIME,
    UnlinkedIdentity,
    UpstreamPurpose,
    UpstreamSignIn,
    UpstreamSignIns,
)
from valetkey.authorization.email.notices import Notices
from valetkey.authorization.endpoints.authorize.server import Server
from valetkey.authorization.layout.addresses import ADDRESSES, WITH
from valetkey.authorization.model.event.event import USUAL_ACTOR
from valetkey.authorization.site.page import SeeOther
from valetkey.authorization.site.sign_in.flow import SignInFlow
from valetkey.authorization.site.sign_in.sign_in import ProviderButton
from valetkey.authorization.storage.sign_in.throttles import Limit
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import minutes
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.replace import replace
from valetkey.web.client_address import network_of
from valetkey.web.exchange import Request

ARRIVED = "/oauth/sign-in/arrived"
CONNECTIONS = ADDRESSES["connections"]

REDIRECT = "federation"
"""The purpose of the token of links that redirect to a provider."""

_DEPARTURES = Limit(60, minutes(15))
"""Maximum rate of redirects to providers for one network, each a row: those that prove no identity.

An office behind one address signs in as often as it likes.
"""


class Federation(Struct, frozen=True):
    """Parts shared by the pages. `sign_up` says whether new users may create an account."""

    server: Server
    flow: SignInFlow
    notices: Notices
    providers: Providers
    pending_sign_ins: UpstreamSignIns
    newcomers: FederatedAccounts
    sign_up: bool

    def provider(self, request: Request) -> Provider:
        """Return the provider that the path names; Refused (not_found) for any other."""
        found = self.providers.find(request.arguments["provider"])
        if found is None:
            raise Refused.because(
                ErrorCode.NOT_FOUND, "this provider is not configured", "federation.provider"
            )
        return found

    def callback(self, provider: Provider) -> str:
        """Return the callback URL of the provider."""
        return f"{self.server.issuer}{WITH}/{provider.settings.id}/callback"

    def buttons(
        self, browser: str, errand: UpstreamPurpose, about: str, *, sealed: str = "", to: str = ""
    ) -> tuple[ProviderButton, ...]:
        """Return a link for each provider; each keeps the user's return target.

        Links, not forms: browsers apply the form-action policy to every redirect after a form, and
        the URLs through which a provider redirects are unknown.
        """
        more = {"interaction": sealed, "to": to}
        token = self.server.csrf(browser, REDIRECT, errand, about)
        said = {"errand": errand.value, "csrf": token, **more}
        query = urlencode({name: value for name, value in said.items() if value})
        return tuple(
            ProviderButton(
                each.settings.id, each.settings.name, f"{WITH}/{each.settings.id}?{query}"
            )
            for each in self.providers
        )

    def sign_in_buttons(
        self, browser: str, about: str, sealed: str, to: str
    ) -> tuple[ProviderButton, ...]:
        """Return the links of the sign-in page."""
        return self.buttons(browser, UpstreamPurpose.SIGN_IN, about, sealed=sealed, to=to)

    async def redirect_to_provider(
        self, request: Request, provider: Provider, pending_sign_in: UpstreamSignIn, state: str
    ) -> SeeOther:
        """Store the pending sign-in and redirect the browser to the provider."""
        upstream_state = pending_sign_in.upstream_state(state, self.callback(provider))
        target = await provider.authorization_url(upstream_state)
        now = request.at
        print_ = self.server.keyring.fingerprint_key.of("federation", network_of(request.address))
        bucket = f"federation:{print_}"
        counted = replace(pending_sign_in, counted=bucket)
        voucher = self.pending_sign_ins.voucher(counted, state, now)

        def count_departure(tx: Transaction) -> int:
            wait = tx.throttles.take(bucket, _DEPARTURES, now)
            if not wait:
                tx.vouchers.issue(voucher)
            return wait

        if wait := await self.server.store.write(count_departure, done_by=USUAL_ACTOR):
            raise Refused.because(
                ErrorCode.SLOW_DOWN,
                "too many sign-in attempts from your network; try again later",
                "federation.throttled",
                retry_after=wait,
            )
        return SeeOther(target)

    def unlinked(self, request: Request) -> UnlinkedIdentity | None:
        """Return the pending unlinked identity of this browser; None without one."""
        sealed = request.cookie(self._cookie) or ""
        print_ = self.server.cookies.browser_fingerprint(self.server.cookies.browser(request))
        return UnlinkedIdentity.open(sealed, self.server.keyring.sealer, print_, request.at)

    def remember(self, unlinked: UnlinkedIdentity) -> tuple[str, str]:
        """Return the header that keeps the identity for a quarter of an hour."""
        sealed = unlinked.seal(self.server.keyring.sealer, self.server.random)
        return self._set(sealed, LIFETIME)

    def deleted_cookie(self) -> tuple[str, str]:
        """Return the header that deletes the cookie."""
        return self._set("", 0)

    @property
    def _cookie(self) -> str:
        return "__Host-arrival" if self.server.cookies.secure else "valetkey-arrival"

    def _set(self, value: str, age: int) -> tuple[str, str]:
        secure = "; Secure" if self.server.cookies.secure else ""
        text = f"{self._cookie}={value}; Path=/; Max-Age={age}; HttpOnly; SameSite=Lax{secure}"
        return "set-cookie", text


def with_place(path: str, sealed: str, to: str) -> str:
    """Return the URL of the page at `path` with the return target: an app, or a local page."""
    said = {"interaction": sealed} if sealed else {"to": to} if to else {}
    return f"{path}?{urlencode(said)}" if said else path
