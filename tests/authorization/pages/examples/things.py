"""One example of every page of administration about things, and those hardest to lay out."""

from collections.abc import Mapping

from tests.authorization.pages.examples.apis import apis_examples
from tests.authorization.pages.examples.claims import claims_examples
from tests.authorization.pages.examples.federation import shown_settings
from tests.authorization.pages.examples.groups import groups_examples
from tests.authorization.pages.examples.programs import log_examples, programs_examples
from tests.authorization.pages.examples.signals import signals_examples
from tests.authorization.pages.examples.webhooks import webhooks_examples
from valetkey.authorization.actions.admin.search import Match
from valetkey.authorization.features import AREAS
from valetkey.authorization.layout.contexts import AskingApp, When
from valetkey.authorization.layout.render import PageContext
from valetkey.authorization.model.email import EmailKind
from valetkey.authorization.operations.server import ROTATE_KEYS, WITHDRAW_KEY
from valetkey.authorization.site.admin.clients.client import (
    secret_page,
)
from valetkey.authorization.site.admin.clients.clients import (
    SELECTED_APPS,
)
from valetkey.authorization.site.admin.confirm import ConfirmPage, FieldShown, Impact
from valetkey.authorization.site.admin.selected import SelectedEntry, SelectedPage
from valetkey.authorization.site.admin.server.brand import brand_form
from valetkey.authorization.site.admin.server.keys import (
    KeyLine,
    KeysOfAlgorithm,
    KeysPage,
)
from valetkey.authorization.site.admin.server.registration import (
    InitialAccessTokenLine,
    RegistrationPage,
    invitation_page,
)
from valetkey.authorization.site.admin.server.setting_form import line_of
from valetkey.authorization.site.admin.server.settings import (
    EmailLine,
    MailPage,
    ServerSettingsPage,
    SettingGroup,
)
from valetkey.authorization.site.page import Figure
from valetkey.authorization.site.search import ResultGroup, SearchPage
from valetkey.config.sections.people import BrandField, BrandSettings
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace

_NOW = Instant(1_800_000_000)
_SECRET = "vk_cs_0PZbgkQ7sXyT3mVw9LrE1aNcHfJ5uD8oKi2RtYxWqBvGp4M"
_KID = "aLK10lrmv1k2f-suxsIlNQssqmEt0DuRsaoJoQNh8Bg"
_CLIENT = "/admin/clients/app_7f3k9qxmB2"
_BUTTONS = {b.slug: b for o in AREAS["clients"] for b in o.buttons}


def _ago(seconds: int) -> When:
    return When(Instant(_NOW - seconds), _NOW)


def _ask(slug: str, name: str = "Notes Printer", fault: str = "") -> ConfirmPage:
    button = _BUTTONS[slug]
    return ConfirmPage(
        f"{_CLIENT}/{slug}",
        _CLIENT,
        button.title,
        button.text,
        name,
        ("app_7f3k9qxmB2",),
        ends=Impact(people=1_284, authorizations=1_301) if button.shows_impact else None,
        danger=button.danger,
        fields=tuple(
            FieldShown(each.name, each.label, tuple(each.choices), "86400")
            for each in button.fields
        ),
        hidden=(("secret", "cs_4fGh2kLmNp"),) if button.carries else (),
        fault=fault,
        confirms=name if button.irreversible else "",
    )


def _search(long: AskingApp, hostile: AskingApp) -> Mapping[str, PageContext]:
    pages = (Match("Signing keys", "/admin/keys", "Server", translatable=True),)
    apps = tuple(
        Match(name, _CLIENT, "app_7f3k9qxmB2")
        for name in ("Notes Printer", hostile.name, long.name)
    )
    page = SearchPage(
        "admin/frame.html",
        "/admin/search",
        "no",
        "Users, apps and pages by their name.",
        (
            ResultGroup("Pages", pages, Figure(1)),
            ResultGroup("Apps", apps, Figure(50, more=True), "/admin/clients?q=no"),
        ),
    )
    return {
        "admin_search": page,
        "admin_search_none": replace(page, text=hostile.name, groups=()),
        "developer_search": replace(
            page, frame="portal/pages/frame.html", action="/developer/search"
        ),
    }


def _clients(long: AskingApp, hostile: AskingApp) -> Mapping[str, PageContext]:
    chosen = tuple(
        SelectedEntry("app_7f3k9qxmB2", name, _CLIENT, "app_7f3k9qxmB2")
        for name in ("Notes Printer", hostile.name, long.name)
    )
    disable, delete = _BUTTONS["disable"], _BUTTONS["delete"]
    selected = SelectedPage(
        "/admin/clients/selected/disable",
        "/admin/clients",
        SELECTED_APPS.above,
        disable.title,
        disable.text,
        SELECTED_APPS.field,
        chosen,
        danger=True,
    )
    return {
        "admin_apps_selected": selected,
        "admin_apps_selected_none": replace(selected, entries=()),
        "admin_apps_selected_delete": replace(
            selected, title=delete.title, text=delete.text, confirms="3", fault="wrong"
        ),
        "admin_apps_selected_done": replace(selected, is_done=True),
        "admin_apps_selected_refused": replace(
            selected,
            entries=(*chosen[:2], replace(chosen[2], fault="this client does not exist")),
            is_done=True,
            failed=1,
        ),
        "admin_secret": secret_page(
            _CLIENT, "Notes Printer", "app_7f3k9qxmB2", _SECRET, others_end=True
        ),
        "admin_secret_first": secret_page(
            _CLIENT, long.name, "app_7f3k9qxmB2", _SECRET, others_end=False
        ),
        **{f"admin_client_{slug.replace('-', '_')}": _ask(slug) for slug in _BUTTONS},
        "admin_client_refused": _ask("allow-implicit", fault="This app cannot have it."),
        "admin_client_ask_hostile": _ask("disable", hostile.name),
    }


_KEYS = tuple(
    KeyLine(
        kid=_KID,
        state=state,
        made=_ago(made),
        signs_from=_ago(starts),
        signs_until=_ago(3_600) if state == "retiring" else None,
        published_until=_ago(-86_400) if state == "retiring" else None,
        withdraw_url=f"/admin/keys/{_KID}/withdraw",
    )
    for state, made, starts in (
        ("next", 86_400, -80 * 86_400),
        ("current", 11 * 86_400, 10 * 86_400),
        ("retiring", 101 * 86_400, 100 * 86_400),
    )
)


def _server(hostile: AskingApp) -> Mapping[str, PageContext]:
    rotate, withdraw = ROTATE_KEYS.buttons[0], WITHDRAW_KEY.buttons[0]
    keys = KeysPage((KeysOfAlgorithm("ES256", _KEYS),), 90, 24, "/admin/keys/rotate")
    mail = MailPage(
        "/admin/mail",
        "smtp",
        "smtp.example.com",
        "accounts@example.com",
        "ada@example.com",
        2,
        (
            EmailLine("verify_email", EmailKind.VERIFY_EMAIL.label, _ago(300), 1),
            EmailLine("password_reset", EmailKind.PASSWORD_RESET.label, _ago(86_000), 3),
        ),
        (
            EmailLine(
                "new_device",
                EmailKind.NEW_DEVICE.label,
                _ago(9_000),
                12,
                "recipient rejected with 550",
            ),
        ),
    )
    registration = RegistrationPage(
        action="/admin/registration",
        mode="token",
        people="verified",
        people_setting="portal.who",
        unused_days=30,
        apps_url="/admin/clients?origin=self",
        invitations=(
            InitialAccessTokenLine(
                "in_1",
                "The printing team",
                19,
                _ago(7_200),
                _ago(-2_592_000),
                "/admin/registration/invitations/in_1/withdraw",
            ),
            InitialAccessTokenLine("in_2", hostile.name, 1, _ago(90_000), _ago(-86_400), ""),
        ),
    )
    lines = tuple(
        line_of(replace(each, changeable=True), may=True)
        for each in shown_settings("tokens.access_token_lifetime", "tokens.signing_algorithms")
    )
    lines = (
        replace(lines[0], origin="file", line=12, edit_url=""),
        replace(lines[1], origin="environment", edit_url=""),
    )
    emails = tuple(line_of(each, may=True) for each in shown_settings("mail.host", "mail.port"))
    section = SettingGroup("tokens", "Tokens", "How long tokens are valid.", lines)
    base = BrandSettings()
    said = dict.fromkeys(BrandField, "") | {
        BrandField.NAME: "Acme",
        BrandField.ACCENT: "#ffcc00",
        BrandField.LOGO_URL: "/logos/aaaaaaaaaaaaaaaaaaaaaa",
    }
    typed = {each.value: value for each, value in said.items()}
    brand = brand_form(said, typed, base, {}, is_preview=True)
    return {
        "admin_keys": keys,
        "admin_keys_many": replace(
            keys,
            algorithms=(KeysOfAlgorithm("ES256", _KEYS), KeysOfAlgorithm("RS256", _KEYS[:2])),
            done="Keys rotated.",
        ),
        "admin_keys_none": replace(keys, algorithms=(), rotate_url="", done="Key withdrawn."),
        "admin_keys_rotate": ConfirmPage(
            "/admin/keys/rotate",
            "/admin/keys",
            rotate.title,
            rotate.text,
            "",
            (),
            fields=tuple(
                FieldShown(each.name, each.label, tuple(each.choices), "false", each.hints)
                for each in rotate.fields
            ),
            above="Signing keys",
        ),
        "admin_keys_withdraw": ConfirmPage(
            f"/admin/keys/{_KID}/withdraw",
            "/admin/keys",
            withdraw.title,
            withdraw.text,
            _KID,
            (),
            danger=True,
            confirms=_KID[:8],
            above="Signing keys",
            consequences=tuple(withdraw.consequences),
        ),
        "admin_mail": mail,
        "admin_mail_tested": replace(mail, tested="queued", waiting=1, sent=(), given_up=()),
        "admin_mail_refused": replace(
            mail,
            transport="mailbox",
            sent=(EmailLine("<i>", "", _ago(9), 1),),
            may_test=False,
            tested="refused",
        ),
        "admin_mail_off": replace(mail, transport="off"),
        "admin_registration": registration,
        "admin_registration_wrong": replace(
            registration,
            mode="off",
            people="nobody",
            invitations=(),
            note=hostile.name,
            uses="0",
            faults=(
                ("uses", "Enter a number from 1 to 1,000,000."),
                ("lifetime", "Enter a number of days from 1 to 3650."),
            ),
        ),
        "admin_registration_open": replace(
            registration, mode="open", people="everybody", may_invite=False, withdrawn=True
        ),
        "admin_registration_invited": replace(registration, people="invited"),
        "admin_invitation": invitation_page(
            _SECRET.replace("cs", "in"),
            "https://auth.example/oauth/register",
            20,
            "2027-02-14 08:00:00 UTC",
        ),
        "admin_settings": ServerSettingsPage(
            (section, replace(section, slug="email", title="Email", settings=emails)),
            "/etc/valetkey.toml",
            "/admin/settings/brand",
        ),
        "admin_settings_found": ServerSettingsPage((section,), "", "", text="token"),
        "admin_settings_none": ServerSettingsPage((), "", "", text=hostile.name),
        "admin_settings_changed": ServerSettingsPage((section,), "", "", changed=True),
        "admin_brand": brand,
        "admin_brand_wrong": brand_form(
            said,
            {**typed, "accent": "red"},
            base,
            {"accent": "Enter a color such as #2456d6.", "logo-dark": "Choose a file first."},
        ),
    }


def things_examples(
    long: AskingApp, rtl: AskingApp, hostile: AskingApp
) -> Mapping[str, PageContext]:
    """All of them."""
    return {
        **_clients(long, hostile),
        **_search(long, hostile),
        **apis_examples(long, hostile),
        **groups_examples(long, rtl, hostile),
        **claims_examples(long, rtl, hostile),
        **webhooks_examples(long, hostile),
        **signals_examples(long, hostile),
        **_server(hostile),
        **log_examples(hostile, long),
        **programs_examples(hostile),
    }
