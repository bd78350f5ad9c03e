"""One example of every page of the developer portal, and those that are hardest to lay out."""

from collections.abc import Collection, Mapping

from valetkey.authorization.actions.presets import PRESETS, AppKind, presets_of
from valetkey.authorization.features import GRANT_RULES
from valetkey.authorization.layout.contexts import AskingApp, Chart, When
from valetkey.authorization.layout.render import PageContext
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
    InvitationLine,
    MemberLine,
    RemoveMemberPage,
    TeamPage,
)
from valetkey.authorization.portal.rules.apps import Overlap
from valetkey.authorization.protocol.claims import IDENTITY_SCOPES
from valetkey.authorization.protocol.client_authentication import BY_NAME
from valetkey.authorization.protocol.register.faults import MetadataError, fault
from valetkey.authorization.site.admin.clients.app_form import (
    APP_CHOICES,
    APP_GROUPS,
    APP_STATES,
    DEVELOPER_WORDS,
    VERIFIED,
    DeveloperChange,
)
from valetkey.authorization.site.admin.clients.registration import ChooseKindPage, RegisteredPage
from valetkey.authorization.site.admin.confirm import Offer
from valetkey.authorization.site.admin.input_fields import input_fields
from valetkey.authorization.site.admin.input_form import InputFormPage
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
SCOPES = (
    ("", "Sign-in and profile"),
    *IDENTITY_SCOPES.items(),
    ("", "notes"),
    ("notes:read", "read your notes"),
    ("notes:write", "write, change and delete your notes"),
    ("", "Assigned by an administrator"),
    ("files:read", "see 50% of %s of your files"),
)
TEXTS = {
    "name": "Notes Printer",
    "client_uri": "https://app.example",
    "description": "Prints your notes on real paper.",
    "redirect_uris": "https://app.example/callback\nhttp://localhost:3000/callback",
    "scopes": "openid\nnotes:read\nfiles:read",
    "grant_types": "authorization_code\nrefresh_token",
    "profile": "modern",
    "requires_pkce": "yes",
}
CLASSIC = {
    **TEXTS,
    "profile": "classic",
    "requires_pkce": "",
    "grant_types": "authorization_code\nrefresh_token\nimplicit",
}
FAULTY = {
    **TEXTS,
    "name": "Valetkey Support",
    "redirect_uris": "https://app.example/callback\nhttps://app.example/*",
    "logo_uri": "javascript:alert(1)",
}
FAULTS = (
    fault("name", "name.reserved"),
    fault("logo_uri", "link.form"),
    MetadataError("redirect_uris/1", "", "redirect_uri.wildcard"),
)


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


def app_form(
    values: Mapping[str, str],
    *faults: MetadataError,
    app: AppHead | None = HEAD,
    without: Collection[str] = (),
) -> InputFormPage:
    """The form of an app: its settings, or that of a new app."""
    names = ("refresh_token", "client_credentials", "implicit")
    fields = input_fields(
        DeveloperChange,
        {name: words for name, words in DEVELOPER_WORDS.items() if name not in without},
        values,
        faults,
        choices={
            **APP_CHOICES,
            "scopes": SCOPES,
            "grant_types": tuple((name, GRANT_RULES[name].label) for name in names),
        },
        groups=APP_GROUPS,
        states=APP_STATES,
        opened=() if app else ("redirect_uris", "scopes"),
    )
    return InputFormPage(
        action="/developer/new" if app is None else app.at("settings"),
        back="/developer/new" if app is None else app.at(),
        above="Register an app" if app is None else app.name,
        title="Register a web application" if app is None else "Settings",
        submit="Register" if app is None else "Save changes",
        fields=fields,
        frame=FRAME,
        app=app,
        offers=(Offer("delete", "Delete app", "/", danger=True, text="It ends."),) if app else (),
    )


def secrets(*lines: SecretLine, **more: object) -> SecretsPage:
    """The secrets of the app."""
    address = HEAD.at("secrets")
    return SecretsPage(HEAD, address, "0a", lines, **more)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


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
    address = "/developer/invitations/ti_1"
    return InvitationPage(address, "vk_ln_1", app, by, owner=False)


def delete(people: int) -> DeleteAppPage:
    """The end of an app that so many people use."""
    return DeleteAppPage(HEAD, HEAD.at("delete"), people, people * 2)


def developer_examples(*apps: AskingApp, hostile: AskingApp) -> Mapping[str, PageContext]:
    """The developer's pages with these apps on them."""
    lines = tuple(OwnAppLine(head(app), app.domain, "modern") for app in apps)
    off = OwnAppLine(AppHead("app_2", "Old Printer", disabled=True), "", "classic")
    odd = {
        **TEXTS,
        "name": hostile.name,
        "description": hostile.domain,
        "redirect_uris": hostile.name,
    }
    empty = {"scopes": "openid", "profile": "modern", "requires_pkce": "yes"}
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
        "new_app": app_form(empty, app=None),
        "new_app_machine": app_form(
            empty, app=None, without=("redirect_uris", "scopes", "grant_types", "requires_pkce")
        ),
        "new_app_faulty": app_form(FAULTY, *FAULTS, app=None),
        "new_app_odd": app_form(odd, app=None),
        "registered": registered(HEAD, SECRET),
        "registered_preset": replace(
            registered(HEAD, SECRET),
            files=SPRING.configuration(SPRING.metadata(), HEAD.client_id, ISSUER, SECRET, bytes),
        ),
        "registered_public": registered(HEAD, ""),
        "registered_hostile": registered(head(hostile), SECRET),
        "registered_console": replace(registered(HEAD, SECRET), frame=ADMIN, app=None),
        "app_settings": replace(app_form(TEXTS), done="Saved.", note=VERIFIED),
        "app_settings_long": app_form(CLASSIC),
        "app_settings_faulty": app_form(FAULTY, *FAULTS),
        "app_settings_others": replace(
            app_form(TEXTS), stale=True, changed=("Name", "Redirect URIs")
        ),
        "app_settings_hostile": app_form(odd, app=head(hostile)),
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
    }
