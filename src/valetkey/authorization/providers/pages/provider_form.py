"""/admin/providers/new and …/edit: add a sign-in provider from a preset, and change one."""

from collections.abc import Mapping
from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import Permission
from valetkey.authorization.layout.addresses import WITH
from valetkey.authorization.operations.accounts.provider_records import (
    ProviderChange,
    ProviderShown,
    ProviderWanted,
)
from valetkey.authorization.operations.accounts.providers import CHANGE_PROVIDER, CREATE_PROVIDER
from valetkey.authorization.operations.operation import (
    InvalidInput,
    Operation,
    Services,
    call_of,
    value_of,
)
from valetkey.authorization.operations.records import tag_of
from valetkey.authorization.site.admin.administrator import AdminRequest, administrator
from valetkey.authorization.site.admin.input_fields import (
    Faults,
    InputField,
    Words,
    as_text,
    input_fields,
    read_input,
    typed,
)
from valetkey.authorization.site.admin.server.providers import (
    NEW,
    PROVIDER,
    PROVIDERS,
    provider_address,
    read_provider,
)
from valetkey.authorization.site.page import Act, Outcome, Page, SeeOther, Show, not_found
from valetkey.config.sections.federation import ISSUERS, ProviderKind
from valetkey.kernel.preconditions import FAILED, NO_PRECONDITIONS, preconditions
from valetkey.kernel.refusal import Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.words import translatable

EDIT = f"{PROVIDER}/edit"
_BAD_REQUEST = 400
_SECRET = "client_secret"


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
    _SECRET: (translatable("Client secret"), translatable("It is stored encrypted.")),
    "scopes": (
        translatable("Further scopes"),
        translatable("One per line. The scopes for sign-in are always requested."),
    ),
    "keep_claims": (
        translatable("Claims to keep"),
        translatable("One per line. Declared claims of tokens can use them."),
    ),
    "sign_up": (
        translatable("New users can sign up with it"),
        translatable("Where sign-up is open, and if the provider verified their email address."),
    ),
}
_EDIT_WORDS: Words = {
    **{name: each for name, each in _WORDS.items() if name not in {"id", "issuer"}},
    _SECRET: (
        translatable("Client secret"),
        translatable("It is stored encrypted. Empty: the secret stays as it is."),
    ),
}


class ProviderFormPage(Struct, frozen=True):
    """The form of a provider; without a preset, the choice of one. Posts `csrf` and the fields."""

    template: ClassVar[str] = "admin/server/provider_form.html"
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
        create, change = Act(self.create, opaque=(_SECRET,)), Act(self.change, opaque=(_SECRET,))
        return (
            Page(NEW, may, self.show_new, create, title=translatable("New provider")),
            Page(EDIT, may, self.edit, change, title=translatable("Edit provider")),
        )

    async def show_new(self, request: AdminRequest) -> Outcome:
        """Show the choice of a preset, or the form that it prefills."""
        wanted = request.query.get("preset")
        preset = next((each for each in PRESETS if each.id == wanted), None)
        values = {} if preset is None else {"id": preset.id, "issuer": preset.issuer}
        if preset is not None:
            values["name"] = preset.name
        return Show(form_page(self._server, preset, values))

    async def create(self, request: AdminRequest) -> Outcome:
        """Add the provider, or show each fault beside its field."""
        chosen = request.form.get("preset")
        preset = next((each for each in PRESETS if each.id == chosen), PRESETS[-1])
        try:
            wanted = read_input(ProviderWanted, _WORDS, request.form)
            body = replace(wanted, id=wanted.id.strip(), kind=preset.kind)
            made = await self._run(request, CREATE_PROVIDER, body)
        except InvalidInput as invalid:
            values = typed(request.form, _WORDS)
            return Show(
                form_page(self._server, preset, values, invalid.faults),
                _BAD_REQUEST,
            )
        return SeeOther(f"{provider_address(made.id)}?done=new")

    async def edit(self, request: AdminRequest) -> Outcome:
        """Show the form with a provider."""
        shown = await read_provider(self.services, request)
        return Show(self._edited(shown, _values(shown), tag_of(shown)))

    async def change(self, request: AdminRequest) -> Outcome:
        """Change the provider, unless it was changed since the form was shown."""
        shown = await read_provider(self.services, request)
        form, tag = request.form, request.form.get("etag") or '""'
        values = typed(form, _EDIT_WORDS)
        try:
            body = read_input(ProviderChange, _EDIT_WORDS, form)
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
        self, shown: ProviderShown, values: Mapping[str, str], tag: str, faults: Faults = ()
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
            fields=_fields(ProviderChange, _EDIT_WORDS, values, faults),
            redirect_uri=shown.redirect_uri,
            etag=tag,
        )


def form_page(
    server: str, preset: Preset | None, values: Mapping[str, str], faults: Faults = ()
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
        fields=_fields(ProviderWanted, _WORDS, values, faults),
        redirect_uri=f"{server}{WITH}/{provider_id}/callback",
        preset=preset,
    )


def _values(shown: ProviderShown) -> Mapping[str, str]:
    return {name: as_text(getattr(shown, name)) for name in _EDIT_WORDS if name != _SECRET}


def _fields(
    kind: type[ProviderWanted | ProviderChange],
    words: Words,
    values: Mapping[str, str],
    faults: Faults,
) -> tuple[InputField, ...]:
    """Return the fields in the order of the words; the secret is never shown again."""
    found = {each.name: each for each in input_fields(kind, words, values, faults)}
    secret = found[_SECRET]
    found[_SECRET] = replace(secret, kind="secret", value="")
    return tuple(found[name] for name in words)
