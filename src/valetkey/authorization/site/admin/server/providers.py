"""/admin/providers: the upstream providers of sign-in, and a test of each."""

from collections.abc import Callable
from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import Permission, permissions_of
from valetkey.authorization.authentication.federation.provider import UpstreamState
from valetkey.authorization.authentication.federation.registry import Providers
from valetkey.authorization.layout.addresses import WITH
from valetkey.authorization.site.admin.administrator import (
    SERVER,
    AdminRequest,
    administrator,
)
from valetkey.authorization.site.page import Act, Outcome, Page, Show, not_found
from valetkey.kernel.refusal import Refused
from valetkey.kernel.secret import to_base64url
from valetkey.kernel.words import translatable

PROVIDERS = "/admin/providers"

_UNREADABLE = translatable("Its discovery document could not be read.")
FAULTS = {
    "federation.discovery": _UNREADABLE,
    "federation.discovery_issuer": translatable("Its discovery document names another issuer."),
    "federation.discovery_endpoint": translatable(
        "An endpoint in its discovery document is not https."
    ),
    "federation.keys": translatable("Its keys could not be read."),
    "federation.client": translatable("It does not accept the client ID or the client secret."),
    "federation.redirect_uri": translatable("The redirect URI is not registered there."),
    "federation.token": translatable("Its token endpoint did not respond as expected."),
}
"""What a test found, by the check that failed."""


class ProviderLine(Struct, frozen=True):
    """A provider; after a test, `fault` is a text of the catalogue, and `reason` what came back."""

    id: str
    name: str
    issuer: str
    client_id: str
    redirect_uri: str
    action: str
    may_sign_up: bool
    tested: bool = False
    fault: str = ""
    reason: str = ""


class ProvidersPage(Struct, frozen=True):
    """The context of providers.html. The forms post `csrf`."""

    template: ClassVar[str] = "admin/server/providers.html"
    scripts: ClassVar[tuple[str, ...]] = ("copy.js",)

    providers: tuple[ProviderLine, ...]
    may_test: bool = True


class UpstreamProviders(Struct, frozen=True):
    """Show the configured providers, and test one as a sign-in would use it."""

    providers: Providers
    issuer: str
    random: Callable[[int], bytes]

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """Return the list and the test."""
        title = translatable("Sign-in providers")
        test = Act(self.test, requires=administrator(Permission.SETTINGS))
        return (
            Page(
                PROVIDERS,
                administrator(),
                self.show,
                title=title,
                nav=SERVER,
                docs="how-to/people/sign-in-from-elsewhere.html",
            ),
            Page(f"{PROVIDERS}/{{provider}}/test", administrator(), act=test, title=title),
        )

    async def show(self, request: AdminRequest) -> Outcome:
        """List the sign-in providers with their redirect URIs."""
        return self._list(request)

    async def test(self, request: AdminRequest) -> Outcome:
        """Test a provider without a user, and show the result in the list."""
        name = request.arguments["provider"]
        provider = self.providers.find(name)
        if provider is None:
            raise not_found("provider")
        state, nonce, verifier = (to_base64url(self.random(32)) for _ in range(3))
        try:
            await provider.probe(UpstreamState(state, nonce, verifier, self._callback(name)))
        except Refused as refused:
            refusal = refused.refusal
            fault = FAULTS.get(refusal.check, _UNREADABLE)
            return self._list(request, name, fault, refusal.received)
        return self._list(request, name)

    def _callback(self, id: str) -> str:
        return f"{self.issuer}{WITH}/{id}/callback"

    def _list(
        self, request: AdminRequest, tested: str = "", fault: str = "", reason: str = ""
    ) -> Show:
        lines = tuple(
            ProviderLine(
                id=each.id,
                name=each.name,
                issuer=each.issuer,
                client_id=each.client_id,
                redirect_uri=self._callback(each.id),
                action=f"{PROVIDERS}/{each.id}/test",
                may_sign_up=each.sign_up,
                tested=each.id == tested,
                fault=fault if each.id == tested else "",
                reason=reason if each.id == tested else "",
            )
            for each in (provider.settings for provider in self.providers)
        )
        may_test = permissions_of(request.user.role).allow(Permission.SETTINGS)
        return Show(ProvidersPage(lines, may_test))
