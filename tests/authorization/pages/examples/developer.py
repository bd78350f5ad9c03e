"""One example of every page of the developer portal, and those that are hardest to lay out."""

from collections.abc import Mapping

from valetkey.authorization.actions.presets import PRESETS, AppKind, new_app, presets_of
from valetkey.authorization.features import GRANT_RULES
from valetkey.authorization.layout.contexts import AskingApp, Chart, When
from valetkey.authorization.layout.render import PageContext
from valetkey.authorization.model.client import GrantTypeName, OpenIdRegistration
from valetkey.authorization.portal.pages.apps import (
    DeleteAppPage,
    EndSecretPage,
    InvitationPage,
    OfferLine,
    OverviewPage,
    OwnAppLine,
    OwnAppsPage,
    SecretLine,
    SecretsPage,
    new_secret_page,
)
from valetkey.authorization.portal.pages.requests import RequestLine
from valetkey.authorization.portal.pages.settings import (
    DropGrantTypePage,
    InvitationLine,
    LegacySwitch,
    MemberLine,
    RemoveMemberPage,
    SettingsPage,
    TeamPage,
)
from valetkey.authorization.portal.rules.apps import Overlap
from valetkey.authorization.protocol.claims import IDENTITY_SCOPES
from valetkey.authorization.protocol.client_authentication import BY_NAME
from valetkey.authorization.protocol.register.client_rules import form_options
from valetkey.authorization.protocol.register.faults import SENTENCES
from valetkey.authorization.site.app_form.form import AppForm, GrantBox, ScopeBox, Sentence, UriRow
from valetkey.authorization.site.app_form.registration import (
    ChooseKindPage,
    NewAppPage,
    RegisteredPage,
)
from valetkey.authorization.site.app_team import AppHead
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace

HEAD = AppHead("app_7f3k9qxmB2", "Notes Printer", owns=True, has_secret=True)
NOW = Instant(1_800_000_000)
ISSUER = "https://auth.example"
SECRET = "vk_cs_0PZbgkQ7sXyT3mVw9LrE1aNcHfJ5uD8oKi2RtYxWqBvGp4M"
CONSOLE, ADMIN = "/admin/clients/new", "admin/frame.html"
FRAME = "portal/pages/frame.html"
KINDS = ("server", "browser", "device", "machine")
MANY_SCOPES = tuple(
    ScopeBox(name, sentence, chosen=name == "openid")
    for name, sentence in {
        **IDENTITY_SCOPES,
        "read": "read everything of yours",
        "notes:read": "read your notes",
        "notes:write": "write, change and delete your notes",
    }.items()
)
GRANTS = tuple(
    GrantBox(
        option.field,
        option.label,
        option.hint,
        chosen=name == GrantTypeName.REFRESH_TOKEN,
        confidential=GRANT_RULES[name].needs_secret,
    )
    for name, option in form_options(GRANT_RULES).items()
    if name not in {GrantTypeName.AUTHORIZATION_CODE, GrantTypeName.DEVICE_CODE}
)
FORM = AppForm(
    replace(
        new_app(AppKind.SERVER, "modern", GRANT_RULES),
        name="Notes Printer",
        description="Prints your notes on real paper.",
        openid=OpenIdRegistration(client_uri="https://app.example"),
    ),
    AppKind.SERVER,
    redirect_uris=(
        UriRow("https://app.example/callback"),
        UriRow("http://localhost:3000/callback"),
        UriRow(),
    ),
    scopes=(
        ScopeBox("openid", "confirm your identity", chosen=True),
        ScopeBox("notes:read", "read your notes", chosen=True),
        ScopeBox("notes:write", "write, change and delete your notes"),
        ScopeBox("files:read", "see 50% of %s of your files", chosen=True, given=True),
    ),
    grants=GRANTS,
)
FAULTY = replace(
    FORM,
    app=replace(FORM.app, name="Valetkey Support", logo_uri="javascript:alert(1)"),
    redirect_uris=(
        UriRow("https://app.example/callback", good=True),
        UriRow("https://app.example/*", Sentence("Addresses are compared letter by letter.")),
        UriRow("http://app.example/cb", Sentence(SENTENCES["redirect_uri.own"])),
        UriRow(),
    ),
    faults={
        "name": Sentence(SENTENCES["name.reserved"]),
        "logo_uri": Sentence(SENTENCES["link.form"]),
    },
)
CLASSIC = replace(
    FORM,
    app=replace(
        FORM.app,
        profile="classic",
        requires_pkce=False,
        grant_types=(*FORM.app.grant_types, GrantTypeName.IMPLICIT),
    ),
)
LEGACY = (
    LegacySwitch("implicit", on=True),
    LegacySwitch("password", on=False),
)
OFF = (LegacySwitch("implicit", on=False), LegacySwitch("password", on=False))


def ago(seconds: int) -> When:
    """So many seconds before the page is shown."""
    return When(Instant(NOW - seconds), NOW)


def _label(method: str) -> str:
    return BY_NAME[method].label


WEEK = tuple(f"2027-01-{day:02}" for day in range(9, 16))
OVERVIEW = OverviewPage(
    HEAD,
    ISSUER,
    "server",
    "modern",
    _label("client_secret"),
    ("https://app.example/callback", "http://localhost:3000/callback"),
    ago(900_000),
    Chart(WEEK, (41, 52, 38, 0, 12, 61, 47)),
    Chart(WEEK, (0, 3, 1, 0, 0, 9, 2)),
    success=ago(200),
    failure=RequestLine(
        ago(4_000), "/oauth/authorize", "VK-7Q2M", "invalid_request", "redirect_uri is unknown"
    ),
    issues=2,
    description="Prints your notes on real paper.",
    sentences=("confirm your identity", "read your notes"),
)
SPRING = PRESETS["spring-boot"]
CHOICE = {kind: presets_of(AppKind(kind)) for kind in KINDS}
SECRETS = (
    SecretLine("cs_2", "Gp4M", ago(40), None),
    SecretLine("cs_1", "x7Qa", ago(9_000_000), ago(4_000), ends_in=82_000),
)


def head(app: AskingApp, client_id: str = "app 1&x=2") -> AppHead:
    """That app in the portal."""
    return AppHead(client_id, app.name, app.logo_url, owns=True)


def registered(app: AppHead, secret: str) -> RegisteredPage:
    """The page after registration."""
    return RegisteredPage(FRAME, app.name, app.client_id, ISSUER, secret, app.at(), app=app)


def new(form: AppForm) -> NewAppPage:
    """The page with this form."""
    return NewAppPage(FRAME, "/developer/new", "app_1", "mark", form)


def empty(kind: AppKind, *rows: UriRow) -> AppForm:
    """The form of a new app of this kind."""
    scopes = () if kind is AppKind.MACHINE else MANY_SCOPES
    return AppForm(
        new_app(kind, "modern", GRANT_RULES), kind, redirect_uris=rows, scopes=scopes, grants=GRANTS
    )


def of_kind(kind: AppKind) -> AppForm:
    """The form of an app of this kind."""
    return replace(FORM, kind=kind)


def settings(form: AppForm, app: AppHead = HEAD, **more: object) -> SettingsPage:
    """The settings with this form."""
    return SettingsPage(app, app.at("settings"), "1.2", form, **more)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def secrets(*lines: SecretLine, **more: object) -> SecretsPage:
    """The secrets of the app."""
    place = HEAD.at("secrets")
    return SecretsPage(HEAD, place, "0a", lines, **more)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


MEMBERS = (
    MemberLine("1", "Ada Lovelace", "ada", owns=True, since=ago(9_000_000), here=True),
    MemberLine("2", "", "charles", owns=False, since=ago(90_000)),
    MemberLine("3", "Grace Hopper", "grace", owns=True, since=ago(4_000)),
)
WAITING = (
    InvitationLine("ti_1", "mary.somerville@a-long-name.example.com", owner=True, since=ago(9)),
    InvitationLine("ti_2", "babbage", owner=False, since=ago(90_000)),
)


def team(*members: MemberLine, **more: object) -> TeamPage:
    """The team of the app."""
    return TeamPage(HEAD, HEAD.at("team"), members or MEMBERS, **more)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def invitation(app: str, by: str) -> InvitationPage:
    """Into the team of this app."""
    place = "/developer/invitations/ti_1"
    return InvitationPage(place, "vk_ln_1", app, by, owner=False)


def delete(people: int) -> DeleteAppPage:
    """The end of an app that so many people use."""
    return DeleteAppPage(HEAD, HEAD.at("delete"), people, people * 2)


def developer_examples(*apps: AskingApp, hostile: AskingApp) -> Mapping[str, PageContext]:
    """The developer's pages with these apps on them."""
    lines = tuple(OwnAppLine(head(app), app.domain, "modern") for app in apps)
    off = OwnAppLine(AppHead("app_2", "Old Printer", disabled=True), "", "classic")
    odd = replace(
        FORM,
        app=replace(FORM.app, name=hostile.name, description=hostile.domain),
        redirect_uris=(UriRow(hostile.name),),
    )
    return {
        "own_apps": OwnAppsPage((replace(lines[0], verified=True), *lines[1:], off), deleted=True),
        "own_apps_none": OwnAppsPage(()),
        "own_apps_asked": OwnAppsPage(
            lines[:1], offers=(OfferLine("/developer/invitations/ti_1", "Scanner", "Grace"),)
        ),
        "own_apps_none_may": OwnAppsPage((), may_register=False),
        "own_apps_hostile": OwnAppsPage((OwnAppLine(head(hostile), hostile.domain, "modern"),)),
        "app": replace(OVERVIEW, verified=True),
        "app_off": replace(
            OVERVIEW, app=replace(HEAD, disabled=True), proof=_label("private_key_jwt")
        ),
        "app_device": replace(OVERVIEW, kind="device", proof=_label("none"), profile="classic"),
        "app_browser": replace(OVERVIEW, kind="browser", proof=_label("none")),
        "app_machine": replace(
            OVERVIEW,
            tokens=Chart(WEEK, (0,) * 7),
            refusals=Chart(WEEK, (0,) * 7),
            success=None,
            failure=None,
            issues=0,
            kind="machine",
            proof=_label("client_secret_jwt"),
            redirect_uris=(),
            sentences=(),
        ),
        "app_seen": replace(OVERVIEW, secret_seen=True, issues=0, hints=1),
        "app_without_secret": replace(OVERVIEW, without_secret=True, profile="fapi2"),
        "app_hostile": replace(
            OVERVIEW, app=head(hostile), description=hostile.name, redirect_uris=(hostile.name,)
        ),
        "choose_kind": ChooseKindPage(FRAME, KINDS, CHOICE),
        **{
            f"choose_kind_{name}": ChooseKindPage(FRAME, KINDS, CHOICE, denial, 20)
            for name, denial in (
                ("disabled", "closed"),
                ("unverified", "unverified"),
                ("uninvited", "uninvited"),
                ("full", "full"),
            )
        },
        "choose_kind_console": ChooseKindPage(ADMIN, KINDS, CHOICE, action=CONSOLE),
        "new_app": new(empty(AppKind.SERVER, UriRow(), UriRow())),
        "new_app_browser": new(of_kind(AppKind.BROWSER)),
        "new_app_device": new(replace(of_kind(AppKind.DEVICE), checked=True)),
        "new_app_machine": new(empty(AppKind.MACHINE)),
        "new_app_faulty": new(FAULTY),
        "new_app_odd": new(odd),
        "new_app_preset": replace(
            new(replace(of_kind(AppKind.SERVER), app=SPRING.metadata())), preset=SPRING
        ),
        "registered": registered(HEAD, SECRET),
        "registered_preset": replace(
            registered(HEAD, SECRET),
            files=SPRING.configuration(SPRING.metadata(), HEAD.client_id, ISSUER, SECRET, bytes),
        ),
        "registered_public": registered(HEAD, ""),
        "registered_hostile": registered(head(hostile), SECRET),
        "registered_console": replace(registered(HEAD, SECRET), frame=ADMIN, app=None),
        "app_settings": settings(FORM, legacy=OFF, saved=True, verified=True),
        "app_settings_long": settings(CLASSIC, legacy=LEGACY),
        "app_settings_faulty": settings(FAULTY),
        "app_settings_others": settings(FORM, others=("name", "redirect_uris", "other")),
        "app_settings_hostile": settings(odd, head(hostile)),
        "secrets": secrets(*SECRETS, full=True),
        "secrets_one": secrets(SECRETS[1], ended=True),
        "secrets_none": secrets(),
        "secrets_seen": secrets(
            replace(SECRETS[0], ending=""), seen_in_url=ago(7_000), url_requests=12
        ),
        "secrets_full": secrets(*SECRETS, full=True, trouble="full"),
        "secrets_others": secrets(*SECRETS, full=True, trouble="others"),
        **{
            f"new_secret_{overlap or 'first'}": new_secret_page(HEAD, SECRET, overlap)
            for overlap in (None, *Overlap)
        },
        "end_secret": EndSecretPage(HEAD, HEAD.at("secrets/end"), SECRETS[1]),
        "end_secret_last": EndSecretPage(HEAD, HEAD.at("secrets/end"), SECRETS[0], last=True),
        "team": team(waiting=WAITING, done="invited"),
        "team_one": team(MEMBERS[0], done="invited", by_mail=False),
        "team_withdrawn": team(done="withdrawn"),
        "team_changed": team(done="changed"),
        "team_removed": team(MEMBERS[0], done="removed"),
        "team_seen_by_member": replace(
            team(waiting=WAITING), app=replace(HEAD, owns=False, has_secret=False)
        ),
        **{
            f"team_{trouble}": team(trouble=trouble, typed="bob@example.com")
            for trouble in ("invalid", "member", "twice", "full", "last_owner")
        },
        "team_hostile": team(
            replace(MEMBERS[1], name=hostile.name),
            waiting=(replace(WAITING[0], invited=hostile.domain),),
        ),
        "remove_member": RemoveMemberPage(HEAD, HEAD.at("team/remove"), MEMBERS[1]),
        "leave_team": RemoveMemberPage(HEAD, HEAD.at("team/remove"), MEMBERS[0]),
        "invitation_to_team": invitation("Notes Printer", "Ada Lovelace"),
        "invitation_to_own": replace(invitation("Notes Printer", "Ada Lovelace"), owner=True),
        "invitation_hostile": invitation(hostile.name, hostile.domain),
        "delete_app": delete(1_204),
        "delete_app_one": delete(1),
        "delete_app_unused": delete(0),
        "delete_app_wrong": replace(delete(12), typed="Notes", wrong=True),
        "drop_implicit": DropGrantTypePage(HEAD, HEAD.at("legacy"), "implicit"),
        "drop_password": DropGrantTypePage(HEAD, HEAD.at("legacy"), "password"),
    }
