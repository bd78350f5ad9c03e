"""/admin/providers: the sign-in providers, a page about each, its test and its form."""

from collections.abc import Mapping
from typing import ClassVar

import msgspec
from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import Permission, require
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.operations.operation import (
    InvalidInput,
    Operation,
    Services,
    call_of,
    tag_of,
    value_of,
)
from valetkey.authorization.providers.model import SECRET, ProviderWanted
from valetkey.authorization.providers.operations import (
    CHANGE_PROVIDER,
    CREATE_PROVIDER,
    DELETE_PROVIDER,
    LIST_PROVIDERS,
    ONE,
    PROVIDER_OPERATIONS,
    READ_PROVIDER,
    TEST_PROVIDER,
    ProviderChange,
    ProviderList,
    ProviderShown,
    ProviderTested,
)
from valetkey.authorization.providers.rules.identities import redirect_uri
from valetkey.authorization.providers.rules.registry import MOST_COUNTED
from valetkey.authorization.providers.settings import ISSUERS, ProviderKind
from valetkey.authorization.providers.storage import LinkedAccounts, StoredProviders
from valetkey.authorization.site.admin.administrator import SERVER, AdminRequest, administrator
from valetkey.authorization.site.admin.confirm import (
    Buttons,
    Confirmed,
    Offer,
    Subject,
    confirmation,
)
from valetkey.authorization.site.admin.input_fields import (
    Faults,
    InputField,
    Words,
    as_text,
    input_fields,
    read_input,
    typed_again,
)
from valetkey.authorization.site.admin.input_form import act_of
from valetkey.authorization.site.page import Act, AnyPage, Outcome, Page, SeeOther, Show, not_found
from valetkey.kernel.moment import Instant
from valetkey.kernel.preconditions import FAILED, NO_PRECONDITIONS, preconditions
from valetkey.kernel.refusal import Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.text import translatable
from valetkey.web.body import Form

PROVIDERS = "/admin/providers"
PROVIDER = f"{PROVIDERS}/{{provider}}"
NEW = f"{PROVIDERS}/new"
TEST = f"{PROVIDER}/test"

_BUTTONS = Buttons.below(ONE, of=PROVIDER_OPERATIONS)
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

    template: ClassVar[str] = "providers/providers.html"

    listed: tuple[ProviderRow, ...]
    #: "" where the role may not.
    new_url: str
    deleted: bool = False


class ProviderPage(Struct, frozen=True):
    """The context of provider.html. Its form posts `csrf`.

    After a test, `fault` is a text of the catalogue, "" for none, and `reason` what came back.
    """

    template: ClassVar[str] = "providers/provider.html"
    scripts: ClassVar[tuple[str, ...]] = ("copy.js",)

    provider: ProviderShown
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
        providers = await value_of(call, ProviderList)
        return Show(
            ProvidersPage(
                tuple(
                    ProviderRow(
                        each.name, each.issuer, provider_address(each.id), each.origin, each.state
                    )
                    for each in providers.items
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
                StoredProviders.of(tx).linked(shown.issuer, MOST_COUNTED),
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
            provider=shown,
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


EDIT = f"{PROVIDER}/edit"
_BAD_REQUEST = 400


class Preset(Struct, frozen=True):
    """A kind of provider: what its form begins with, and where apps are registered there.

    `note` is a translatable text for this provider only.
    """

    id: str
    name: str
    kind: ProviderKind
    issuer: str
    #: The page of the provider where an app is registered; "" if every installation has its own.
    register_url: str
    note: str = ""

    @property
    def url(self) -> str:
        """The address of the form."""
        return f"{NEW}?preset={self.id}"


PRESETS = (
    Preset(
        "google",
        "Google",
        ProviderKind.OPENID,
        "https://accounts.google.com",
        "https://console.cloud.google.com/auth/clients",
    ),
    Preset(
        "microsoft",
        "Microsoft",
        ProviderKind.OPENID,
        "",
        "https://entra.microsoft.com/",
        translatable(
            "The issuer is https://login.microsoftonline.com/, your tenant ID, and /v2.0. "
            "Microsoft does not say whether an email address is verified: users sign up here first,"
            " then link their account."
        ),
    ),
    Preset(
        "github",
        "GitHub",
        ProviderKind.GITHUB,
        ISSUERS[ProviderKind.GITHUB],
        "https://github.com/settings/developers",
        translatable("For GitHub Enterprise, enter its address as the issuer."),
    ),
    Preset(
        "gitlab",
        "GitLab",
        ProviderKind.OPENID,
        "https://gitlab.com",
        "https://gitlab.com/-/user_settings/applications",
        translatable("Select the scopes openid, profile and email there."),
    ),
    Preset(
        "keycloak",
        "Keycloak",
        ProviderKind.OPENID,
        "",
        "",
        translatable("The issuer is the address of Keycloak, then /realms/ and the realm."),
    ),
    Preset("openid", "OpenID Connect", ProviderKind.OPENID, "", ""),
)

_WORDS: Words = {
    "id": (
        translatable("ID"),
        translatable(
            "Part of the redirect URI: lower-case letters, digits and hyphens. It cannot be changed"
            " later."
        ),
    ),
    "name": (translatable("Name"), translatable("The label of the button on the sign-in page.")),
    "issuer": (
        translatable("Issuer"),
        translatable("The address that identifies the provider. It cannot be changed later."),
    ),
    "client_id": (translatable("Client ID"), ""),
    SECRET: (translatable("Client secret"), translatable("It is stored encrypted.")),
    "scopes": (
        translatable("Further scopes"),
        translatable("The scopes for sign-in are always requested."),
    ),
    "keep_claims": (
        translatable("Claims to keep"),
        translatable("Declared claims of tokens can use them."),
    ),
    "sign_up": (
        translatable("New users can sign up with it"),
        translatable("Where sign-up is open, and if the provider verified their email address."),
    ),
}
_EDIT_WORDS: Words = {
    **{name: each for name, each in _WORDS.items() if name not in {"id", "issuer"}},
    SECRET: (
        translatable("Client secret"),
        translatable("It is stored encrypted. Empty: the secret stays as it is."),
    ),
}


class ProviderFormPage(Struct, frozen=True):
    """The form of a provider; without a preset, the choice of one. Posts `csrf` and the fields."""

    template: ClassVar[str] = "providers/provider_form.html"
    scripts: ClassVar[tuple[str, ...]] = ("copy.js", "show.js")

    action: str
    back: str
    above: str
    title: str
    submit: str
    fields: tuple[InputField, ...] = ()
    redirect_uri: str = ""
    #: The kinds of providers to choose from; only where none is chosen yet.
    presets: tuple[Preset, ...] = ()
    preset: Preset | None = None
    etag: str = ""
    stale: bool = False
    #: What its template shows of other forms.
    note: str = ""
    problem: str = ""
    frame: str = "admin/frame.html"


class ProviderForms(Struct, frozen=True):
    """Show and handle the forms of sign-in providers."""

    services: Services

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """Return the form for a new provider, and the one that changes a provider."""
        may = administrator(Permission.SETTINGS, recent=True)
        create = act_of(self.create, ProviderWanted, _WORDS, SECRET)
        change = act_of(self.change, ProviderChange, _EDIT_WORDS, SECRET)
        return (
            Page(NEW, may, self.show_new, create, title=translatable("New provider")),
            Page(EDIT, may, self.edit, change, title=translatable("Edit provider")),
        )

    async def show_new(self, request: AdminRequest) -> Outcome:
        """Show the choice of a preset, or the form that it prefills."""
        preset_id = request.query.get("preset")
        preset = next((each for each in PRESETS if each.id == preset_id), None)
        values = {} if preset is None else {"id": preset.id, "issuer": preset.issuer}
        if preset is not None:
            values["name"] = preset.name
        return Show(form_page(self._server, preset, values))

    async def create(self, request: AdminRequest) -> Outcome:
        """Add the provider, or show each fault beside its field."""
        chosen = request.form.get("preset")
        preset = next((each for each in PRESETS if each.id == chosen), PRESETS[-1])
        values, grown = typed_again(request.form, _WORDS)
        if grown is not None:
            return Show(form_page(self._server, preset, values, grown=grown))
        try:
            typed_body = read_input(ProviderWanted, _WORDS, values)
            body = replace(typed_body, id=typed_body.id.strip(), kind=preset.kind)
            made = await self._run(request, CREATE_PROVIDER, body)
        except InvalidInput as invalid:
            return Show(form_page(self._server, preset, values, invalid.faults), _BAD_REQUEST)
        return SeeOther(f"{provider_address(made.id)}?done=new")

    async def edit(self, request: AdminRequest) -> Outcome:
        """Show the form with a provider."""
        shown = await read_provider(self.services, request)
        return Show(self._edited(shown, _values(shown), tag_of(shown)))

    async def change(self, request: AdminRequest) -> Outcome:
        """Change the provider, unless it was changed since the form was shown."""
        shown = await read_provider(self.services, request)
        form, tag = request.form, request.form.get("etag") or '""'
        values, grown = typed_again(form, _EDIT_WORDS)
        if grown is not None:
            return Show(self._edited(shown, values, tag, grown=grown))
        try:
            body = read_input(ProviderChange, _EDIT_WORDS, values)
            await self._run(request, CHANGE_PROVIDER, body, tag)
        except InvalidInput as invalid:
            return Show(self._edited(shown, values, tag, invalid.faults), _BAD_REQUEST)
        except Refused as refused:
            if refused.refusal is not FAILED:
                raise
            page = self._edited(shown, values, tag_of(shown))
            return Show(replace(page, stale=True), _BAD_REQUEST)
        return SeeOther(f"{provider_address(shown.id)}?done=edit")

    @property
    def _server(self) -> str:
        return self.services.settings.authorization.url

    async def _run(
        self, request: AdminRequest, operation: Operation, body: object, tag: str = ""
    ) -> ProviderShown:
        actor, path = request.actor, request.arguments
        call = call_of(self.services, operation, actor, request.now, path, body)
        seen = preconditions((tag,), ()) if tag else NO_PRECONDITIONS
        return await value_of(replace(call, preconditions=seen), ProviderShown)

    def _edited(
        self,
        shown: ProviderShown,
        values: Mapping[str, str],
        tag: str,
        faults: Faults = (),
        grown: str = "",
    ) -> ProviderFormPage:
        if shown.origin == "file":
            raise not_found("provider")
        address = provider_address(shown.id)
        return ProviderFormPage(
            action=f"{address}/edit",
            back=address,
            above=shown.name,
            title=translatable("Edit provider"),
            submit=translatable("Save changes"),
            fields=_fields(ProviderChange, _EDIT_WORDS, values, faults, grown),
            redirect_uri=shown.redirect_uri,
            etag=tag,
        )


def form_page(
    server: str,
    preset: Preset | None,
    values: Mapping[str, str],
    faults: Faults = (),
    grown: str = "",
) -> ProviderFormPage:
    """Return the form of a new provider of the server at this URL, or the choice of a preset."""
    page = ProviderFormPage(
        action=NEW,
        back=PROVIDERS,
        above=translatable("Sign-in providers"),
        title=translatable("New provider"),
        submit=translatable("Add provider"),
    )
    if preset is None:
        return replace(page, presets=PRESETS)
    provider_id = values.get("id") or preset.id
    return replace(
        page,
        fields=_fields(ProviderWanted, _WORDS, values, faults, grown),
        redirect_uri=redirect_uri(server, provider_id),
        preset=preset,
    )


def _values(shown: ProviderShown) -> Mapping[str, str]:
    return {name: as_text(getattr(shown, name)) for name in _EDIT_WORDS if name != SECRET}


def _fields(
    kind: type[msgspec.Struct],
    words: Words,
    values: Mapping[str, str],
    faults: Faults,
    grown: str,
) -> tuple[InputField, ...]:
    """Return the fields in the order of the words; the secret is never shown again."""
    fields = {each.name: each for each in input_fields(kind, words, values, faults, grown=grown)}
    secret = fields[SECRET]
    fields[SECRET] = replace(secret, kind="secret", value="")
    return tuple(fields[name] for name in words)


def pages(services: Services) -> tuple[AnyPage, ...]:
    """Return the pages of the console."""
    return (*ProviderForms(services).pages(), *ProviderPages(services).pages())
