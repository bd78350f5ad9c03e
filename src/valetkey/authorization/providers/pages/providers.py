"""/admin/providers: the sign-in providers, a page about each, and its test."""

from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import Permission, require
from valetkey.authorization.actions.admin.providers import MOST_COUNTED
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.operations.accounts.provider_records import (
    ProviderList,
    ProviderShown,
    ProviderTested,
)
from valetkey.authorization.operations.accounts.providers import (
    DELETE_PROVIDER,
    LIST_PROVIDERS,
    ONE,
    READ_PROVIDER,
    TEST_PROVIDER,
)
from valetkey.authorization.operations.operation import Services, call_of, value_of
from valetkey.authorization.site.admin.administrator import (
    SERVER,
    AdminRequest,
    administrator,
)
from valetkey.authorization.site.admin.confirm import (
    Buttons,
    Confirmed,
    Offer,
    Subject,
    confirmation,
)
from valetkey.authorization.site.page import Act, Outcome, Page, SeeOther, Show
from valetkey.authorization.storage.sign_in.providers import LinkedAccounts
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace
from valetkey.kernel.words import translatable
from valetkey.web.form import Form

PROVIDERS = "/admin/providers"
PROVIDER = f"{PROVIDERS}/{{provider}}"
NEW = f"{PROVIDERS}/new"
TEST = f"{PROVIDER}/test"

_BUTTONS = Buttons.below(ONE)
_DONE = {
    "new": translatable("The provider is added. Its button is on the sign-in page within seconds."),
    "edit": translatable("Saved. The change takes effect within seconds."),
}
_UNREADABLE = translatable("Its discovery document could not be read.")
FAULTS = {
    "federation.discovery": _UNREADABLE,
    "federation.discovery_issuer": translatable("Its discovery document names another issuer."),
    "federation.discovery_endpoint": translatable(
        "An endpoint in its discovery document is not https."
    ),
    "federation.keys": translatable("It publishes no key that can verify its ID tokens."),
    "federation.jwt.alg": translatable(
        "It signs ID tokens with no algorithm that is accepted here."
    ),
    "federation.clock": translatable("Its clock and the clock of this server differ too much."),
    "federation.client": translatable("It does not accept the client ID or the client secret."),
    "federation.redirect_uri": translatable("The redirect URI is not registered there."),
    "federation.token": translatable("Its token endpoint did not respond as expected."),
}
"""What a test found, by the check that failed."""

_ALONE = translatable(
    "Some of the linked users have neither a password nor a passkey here. They can only sign in "
    "again after resetting their password by email."
)
_LINKED = translatable("Some users have linked an account of this provider.")


class ProviderRow(Struct, frozen=True):
    """A row of the list; `origin` and `state` are those of `ProviderShown`."""

    name: str
    issuer: str
    url: str
    origin: str
    state: str


class ProvidersPage(Struct, frozen=True):
    """The context of providers.html."""

    template: ClassVar[str] = "admin/server/providers.html"

    listed: tuple[ProviderRow, ...]
    #: "" where the role may not.
    new_url: str
    deleted: bool = False


class ProviderPage(Struct, frozen=True):
    """The context of provider.html. Its form posts `csrf`.

    After a test, `fault` is a text of the catalogue, "" for none, and `reason` what came back.
    """

    template: ClassVar[str] = "admin/server/provider.html"
    scripts: ClassVar[tuple[str, ...]] = ("copy.js",)

    id: str
    name: str
    issuer: str
    client_id: str
    redirect_uri: str
    scopes: str
    keep_claims: str
    may_sign_up: bool
    origin: str
    state: str
    #: The file that has it; "" for one that was added here.
    file: str
    linked: int
    since: When | None
    ways: tuple[Offer, ...] = ()
    #: "" where the role may not.
    edit_url: str = ""
    test_action: str = ""
    most: int = MOST_COUNTED
    done: str = ""
    tested: bool = False
    fault: str = ""
    reason: str = ""


class ProviderPages(Struct, frozen=True):
    """List the sign-in providers, show one, and test it as a sign-in would use it."""

    services: Services

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """Return the list, the page about one, its test, and the confirmation of operations."""
        title = translatable("Sign-in providers")
        test = Act(self.test, requires=administrator(Permission.SETTINGS))
        return (
            Page(
                PROVIDERS,
                administrator(),
                self.show_list,
                title=title,
                nav=SERVER,
                docs="how-to/people/sign-in-from-elsewhere.html",
            ),
            Page(PROVIDER, administrator(), self.show),
            Page(TEST, administrator(), act=test, title=title),
            confirmation(
                f"{PROVIDER}/{{act}}", _BUTTONS, self.services, self._subject, self._finish
            ),
        )

    async def show_list(self, request: AdminRequest) -> Outcome:
        """List the sign-in providers."""
        call = call_of(self.services, LIST_PROVIDERS, request.actor, request.now)
        found = await value_of(call, ProviderList)
        return Show(
            ProvidersPage(
                tuple(
                    ProviderRow(
                        each.name, each.issuer, provider_address(each.id), each.origin, each.state
                    )
                    for each in found.items
                ),
                NEW if request.permissions.allow(Permission.SETTINGS) else "",
                deleted="deleted" in request.query,
            )
        )

    async def show(self, request: AdminRequest) -> Outcome:
        """Show one provider with its redirect URI."""
        page = await self._page(request)
        done = _BUTTONS.done(request.query.get("done"), _DONE)
        return Show(replace(page, done=done))

    async def test(self, request: AdminRequest) -> Outcome:
        """Test a provider without a user, and show the result on its page."""
        path = {"provider": request.arguments["provider"]}
        call = call_of(self.services, TEST_PROVIDER, request.actor, request.now, path)
        result = await value_of(call, ProviderTested)
        page = await self._page(request)
        if result.works:
            return Show(replace(page, tested=True))
        fault = FAULTS.get(result.check, _UNREADABLE)
        return Show(replace(page, tested=True, fault=fault, reason=result.received))

    async def _subject(self, request: AdminRequest, confirmed: Confirmed, _form: Form) -> Subject:
        shown = await read_provider(self.services, request)
        consequences: tuple[str, ...] = ()
        if confirmed.button.danger:
            linked = await self._linked(request, shown)
            consequences = (
                *((_LINKED,) if linked.count else ()),
                *((_ALONE,) if linked.alone else ()),
            )
        address = provider_address(shown.id)
        facts = (shown.issuer, shown.client_id)
        return Subject(address, shown.name, facts, consequences=consequences)

    async def _finish(
        self, request: AdminRequest, confirmed: Confirmed, _result: object
    ) -> Outcome:
        if confirmed.operation is DELETE_PROVIDER:
            return SeeOther(f"{PROVIDERS}?deleted=1")
        address = provider_address(request.arguments["provider"])
        return SeeOther(f"{address}?done={confirmed.button.slug}")

    async def _linked(self, request: AdminRequest, shown: ProviderShown) -> LinkedAccounts:
        store, actor = self.services.store, request.actor
        return await store.scan(
            lambda tx: (
                require(tx, actor, Permission.READ),
                tx.providers.linked(shown.issuer, MOST_COUNTED),
            )[1]
        )

    async def _page(self, request: AdminRequest) -> ProviderPage:
        shown = await read_provider(self.services, request)
        linked = await self._linked(request, shown)
        address, permissions = provider_address(shown.id), request.permissions
        may = permissions.allow(Permission.SETTINGS)
        file = self.services.settings.source.file
        created = shown.created_at
        return ProviderPage(
            id=shown.id,
            name=shown.name,
            issuer=shown.issuer,
            client_id=shown.client_id,
            redirect_uri=shown.redirect_uri,
            scopes=" ".join(shown.scopes),
            keep_claims=" ".join(shown.keep_claims),
            may_sign_up=shown.sign_up,
            origin=shown.origin,
            state=shown.state,
            file=str(file or "") if shown.origin == "file" else "",
            linked=linked.count,
            since=None if created is None else When(Instant(created), request.now),
            ways=_BUTTONS.offers(shown, permissions, address),
            edit_url=f"{address}/edit" if may and shown.origin == "stored" else "",
            test_action=f"{address}/test" if may else "",
        )


async def read_provider(services: Services, request: AdminRequest) -> ProviderShown:
    """Return the provider that the path names. Raises Refused (not found)."""
    path = {"provider": request.arguments["provider"]}
    return await value_of(
        call_of(services, READ_PROVIDER, request.actor, request.now, path), ProviderShown
    )


def provider_address(provider_id: str) -> str:
    """Return the URL of the page about a provider."""
    return f"{PROVIDERS}/{provider_id}"
