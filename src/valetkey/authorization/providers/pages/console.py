"""/admin/providers: the sign-in providers, a page about each, its test and its form."""

from collections.abc import Mapping

from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import Permission, require
from valetkey.authorization.operations.operation import (
    Services,
    call_of,
    tag_of,
    value_of,
)
from valetkey.authorization.providers.model import SECRET
from valetkey.authorization.providers.operations import (
    CHANGE_PROVIDER,
    CREATE_PROVIDER,
    DELETE_PROVIDER,
    LIST_PROVIDERS,
    ONE,
    PROVIDER_OPERATIONS,
    READ_PROVIDER,
    TEST_PROVIDER,
    ProviderList,
    ProviderShown,
    ProviderTested,
)
from valetkey.authorization.providers.rules.identities import redirect_uri
from valetkey.authorization.providers.rules.registry import MOST_COUNTED
from valetkey.authorization.providers.settings import ISSUERS, ProviderKind
from valetkey.authorization.providers.storage import LinkedAccounts, StoredProviders
from valetkey.authorization.site.admin.administrator import (
    SERVER,
    AdminRequest,
    actor_of,
    administrator,
)
from valetkey.authorization.site.admin.confirm import (
    Buttons,
    Confirmed,
    Subject,
    confirmation,
)
from valetkey.authorization.site.admin.input_fields import (
    Words,
    as_text,
)
from valetkey.authorization.site.admin.input_form import FormSubject, InputForm, InputFormPage
from valetkey.authorization.site.admin.object_page import (
    Fact,
    ObjectPage,
    Related,
    facts,
    read_activity,
)
from valetkey.authorization.site.admin.objects import (
    ACTIVE,
    DISABLED,
    Line,
    LineButton,
    ListDeclaration,
    ListWords,
    Part,
    Row,
    badge,
    code,
    since_or_none,
    text,
    unsorted,
    words,
)
from valetkey.authorization.site.page import Act as PageAct
from valetkey.authorization.site.page import AnyPage, Outcome, Page, SeeOther, Show, not_found
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace
from valetkey.kernel.text import translatable
from valetkey.kernel.url import path_segment, segment_name
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


_TITLE = translatable("Sign-in providers")
_WORKS = translatable("The provider is reachable and accepts the client ID and the client secret.")
_FAILED = Part("words", translatable("The test failed."), tone="alarm")
_OF_FILE = translatable("This provider is from the configuration file, %(file)s. Change it there.")
_OF_ENVIRONMENT = translatable("This provider is from the environment. Change it there.")
_HIDDEN = translatable(
    "The configuration file has a provider with the same ID or issuer, which is used instead of"
    " this one."
)
_STATES = {
    "enabled": ACTIVE,
    "disabled": DISABLED,
    "hidden": badge(translatable("Replaced by the configuration file"), "note"),
}
_LIST = ListDeclaration(
    PROVIDERS,
    ListWords(
        caption=_TITLE,
        new=translatable("Add provider"),
        empty_title=translatable("No sign-in providers"),
        empty_text=translatable(
            "Let users sign in with Google, Microsoft, GitHub, GitLab, Keycloak or any other OpenID"
            " provider."
        ),
    ),
    unsorted(
        translatable("Provider"),
        translatable("State"),
        translatable("Managed in"),
    ),
    new_url=NEW,
)
_DELETED = translatable(
    "Provider deleted. Its button disappears from the sign-in page within seconds."
)


class ProviderPages(Struct, frozen=True):
    """List the sign-in providers, show one, and test it as a sign-in would use it."""

    services: Services

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """Return the list, the page about one, its test, and the confirmation of operations."""
        test = PageAct(self.test, requires=administrator(Permission.SETTINGS))
        return (
            Page(
                PROVIDERS,
                administrator(),
                self.show_list,
                title=_TITLE,
                nav=SERVER,
                docs="how-to/people/sign-in-from-elsewhere.html",
            ),
            Page(PROVIDER, administrator(), self.show),
            Page(TEST, administrator(), act=test, title=_TITLE),
            confirmation(
                f"{PROVIDER}/{{act}}", _BUTTONS, self.services, self._subject, self._finish
            ),
        )

    async def show_list(self, request: AdminRequest) -> Outcome:
        """List the sign-in providers."""
        call = call_of(self.services, LIST_PROVIDERS, request.actor, request.now)
        providers = await value_of(call, ProviderList)
        page = _LIST.whole(
            map(_row, providers.items),
            may=request.permissions.allow(Permission.SETTINGS),
            done=_DELETED if "deleted" in request.query else "",
        )
        return Show(page)

    async def show(self, request: AdminRequest) -> Outcome:
        """Show one provider with its redirect URI."""
        return Show(await self._page(request, _BUTTONS.done(request.query.get("done"), _DONE)))

    async def test(self, request: AdminRequest) -> Outcome:
        """Test a provider without a user, and show the result on its page."""
        path = {"provider": request.arguments["provider"]}
        call = call_of(self.services, TEST_PROVIDER, request.actor, request.now, path)
        result = await value_of(call, ProviderTested)
        if result.works:
            return Show(await self._page(request, _WORKS))
        fault = FAULTS.get(result.check, _UNREADABLE)
        return Show(await self._page(request, failure=(words(fault, result.received),)))

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
        address = provider_address(segment_name(request.arguments["provider"]))
        return SeeOther(f"{address}?done={confirmed.button.slug}")

    async def _linked(self, request: AdminRequest, shown: ProviderShown) -> LinkedAccounts:
        store, actor = self.services.store, request.actor
        return await store.scan(
            lambda tx: (
                require(tx, actor, Permission.READ),
                StoredProviders.of(tx).linked(shown.issuer, MOST_COUNTED),
            )[1]
        )

    async def _page(
        self, request: AdminRequest, done: str = "", failure: tuple[Part, ...] = ()
    ) -> ObjectPage:
        """Return the page; `failure` is why a test failed."""
        shown = await read_provider(self.services, request)
        linked = await self._linked(request, shown)
        address, permissions = provider_address(shown.id), request.permissions
        may = permissions.allow(Permission.SETTINGS)
        changes = may and shown.origin == "stored"
        return ObjectPage(
            PROVIDERS,
            _TITLE,
            shown.name,
            state=(_STATES[shown.state],),
            notes=((_FAILED,) if failure else ()) + self._notes(shown),
            done=done,
            facts=_facts(shown, linked.count, request.now),
            links=(("edit", translatable("Edit provider"), f"{address}/edit"),) if changes else (),
            actions=_BUTTONS.offers(shown, permissions, address),
            related=(_test(shown, f"{address}/test", failure),) if may else (),
            activity=await read_activity(self.services, request, f"provider:{shown.id}"),
        )

    def _notes(self, shown: ProviderShown) -> tuple[Part, ...]:
        file = self.services.settings.source.file
        if shown.origin == "file":
            return (words(_OF_FILE, file=str(file)) if file else words(_OF_ENVIRONMENT),)
        return (words(_HIDDEN),) if shown.state == "hidden" else ()


def _row(shown: ProviderShown) -> Row:
    of_file = shown.origin == "file"
    origin = translatable("Configuration file") if of_file else translatable("Console")
    return Row(
        shown.id,
        shown.name,
        provider_address(shown.id),
        ((_STATES[shown.state],), (words(origin),)),
        (text(shown.issuer),),
    )


def _facts(shown: ProviderShown, linked: int, now: Instant) -> tuple[Fact, ...]:
    signs_up, cannot = (
        translatable("can sign up, where sign-up is open"),
        translatable("cannot sign up"),
    )
    count = Part("number", count=linked)
    if linked >= MOST_COUNTED:
        count = words(translatable("%(number)s or more"), number=linked)
    return (
        *_redirect_uri(shown.redirect_uri),
        *facts(
            (
                (translatable("Issuer"), code(shown.issuer)),
                (translatable("Client ID"), code(shown.client_id)),
            )
        ),
        *(
            Fact(label, tuple(code(name) for name in listed))
            for label, listed in (
                (translatable("Further scopes"), shown.scopes),
                (translatable("Claims to keep"), shown.keep_claims),
            )
            if listed
        ),
        *facts(
            (
                (translatable("New users"), words(signs_up if shown.sign_up else cannot)),
                (translatable("Linked accounts"), count),
                (translatable("Added"), since_or_none(shown.created_at, now)),
            )
        ),
    )


def _test(shown: ProviderShown, action: str, failure: tuple[Part, ...]) -> Related:
    title = translatable("Test connection")
    act = LineButton(action, title, title, shown.name, (("provider", shown.id),), "test")
    explanation = translatable(
        "The test does what a sign-in does, with an invalid code. No user is signed in."
    )
    return Related(
        "test", translatable("Test"), (Line(words(explanation), below=failure, act=act),)
    )


async def read_provider(services: Services, request: AdminRequest) -> ProviderShown:
    """Return the provider that the path names. Raises Refused (not found)."""
    path = {"provider": request.arguments["provider"]}
    return await value_of(
        call_of(services, READ_PROVIDER, request.actor, request.now, path), ProviderShown
    )


def provider_address(provider_id: str) -> str:
    """Return the URL of the page about a provider."""
    return f"{PROVIDERS}/{path_segment(provider_id)}"


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

WORDS: Words = {
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
    "client_id": (
        translatable("Client ID"),
        translatable("The provider issues it and the client secret for a registered application."),
    ),
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
    "kind": (translatable("Protocol"), translatable("It cannot be changed later.")),
}
_EDIT_WORDS: Words = {
    **{name: texts for name, texts in WORDS.items() if name not in {"id", "issuer", "kind"}},
    SECRET: (
        translatable("Client secret"),
        translatable("It is stored encrypted. Empty: the secret stays as it is."),
    ),
}


KINDS = (
    (ProviderKind.OPENID.value, translatable("OpenID Connect")),
    (ProviderKind.GITHUB.value, "GitHub"),
)
GROUPS: Mapping[str, str] = dict.fromkeys(
    ("scopes", "keep_claims", "sign_up", "kind"), translatable("Scopes, claims and sign-up")
)
_NEW_TITLE = translatable("New provider")


class ProviderForms(Struct, frozen=True):
    """The forms of sign-in providers; that of a new one begins with the choice of a preset."""

    services: Services

    def pages(self) -> tuple[AnyPage, ...]:
        """Return the form for a new provider, and the one that changes a provider."""
        return replace(self._new.page(), show=self.show_new), self._edit.page()

    @property
    def _new(self) -> InputForm[AdminRequest, ProviderShown]:
        return InputForm(
            NEW,
            _MAY,
            actor_of,
            self.services,
            CREATE_PROVIDER,
            ProviderShown,
            WORDS,
            _NEW_TITLE,
            self._preset,
            self._saved,
            submit=translatable("Add provider"),
            choices={"kind": KINDS},
            groups=GROUPS,
            secrets=(SECRET,),
        )

    @property
    def _edit(self) -> InputForm[AdminRequest, ProviderShown]:
        return InputForm(
            EDIT,
            _MAY,
            actor_of,
            self.services,
            CHANGE_PROVIDER,
            ProviderShown,
            _EDIT_WORDS,
            translatable("Edit provider"),
            self._edited,
            self._saved,
            groups=GROUPS,
            secrets=(SECRET,),
        )

    async def show_new(self, request: AdminRequest) -> Outcome:
        """Show the choice of a preset, or the form that it prefills."""
        if request.query.get("preset") in _BY_ID:
            return await self._new.show_form(request)
        return Show(CHOICE)

    async def _preset(self, request: AdminRequest) -> FormSubject:
        chosen = request.query.get("preset") or request.form.get("preset") or ""
        server = self.services.settings.authorization.url
        return preset_subject(server, _BY_ID.get(chosen, PRESETS[-1]))

    async def _edited(self, request: AdminRequest) -> FormSubject:
        shown = await read_provider(self.services, request)
        if shown.origin == "file":
            raise not_found("provider")
        return FormSubject(
            provider_address(shown.id),
            shown.name,
            values={name: as_text(getattr(shown, name)) for name in _EDIT_WORDS if name != SECRET},
            etag=tag_of(shown),
            facts=_redirect_uri(shown.redirect_uri),
        )

    async def _saved(self, request: AdminRequest, shown: ProviderShown) -> Outcome:
        done = "edit" if "provider" in request.arguments else "new"
        return SeeOther(f"{provider_address(shown.id)}?done={done}")


def preset_subject(server: str, preset: Preset) -> FormSubject:
    """Return what the form of a new provider of the server at this URL begins with."""
    link = text(preset.name, preset.register_url) if preset.register_url else None
    return FormSubject(
        PROVIDERS,
        _TITLE,
        values={
            "id": preset.id,
            "name": preset.name,
            "issuer": preset.issuer,
            "kind": preset.kind.value,
        },
        note=preset.note,
        hidden=(("preset", preset.id),),
        facts=(
            *facts(((translatable("Register a web application at"), link),)),
            *_redirect_uri(redirect_uri(server, preset.id)),
        ),
    )


def _redirect_uri(address: str) -> tuple[Fact, ...]:
    label = translatable("Redirect URI to register there")
    return facts(((label, Part("copy", address, small="redirect-uri")),))


_MAY = administrator(Permission.SETTINGS, recent=True)
_BY_ID = {preset.id: preset for preset in PRESETS}
CHOICE = InputFormPage(
    action=NEW,
    back=PROVIDERS,
    above=_TITLE,
    title=_NEW_TITLE,
    submit="",
    fields=(),
    related=(
        Related(
            "presets",
            translatable("Which provider do your users have accounts at?"),
            tuple(
                Line(
                    text(preset.name, preset.url),
                    below=(text(preset.issuer),) if preset.issuer else (),
                )
                for preset in PRESETS
            ),
        ),
    ),
)
"""The page that asks for the preset of a new provider."""


def pages(services: Services) -> tuple[AnyPage, ...]:
    """Return the pages of the console."""
    return (*ProviderForms(services).pages(), *ProviderPages(services).pages())
