"""One example of every page of administration about things, and those hardest to lay out."""

import json
from collections.abc import Mapping, Sequence

from tests.authorization.pages.examples.apis import apis_examples
from tests.authorization.pages.examples.claims import claims_examples
from tests.authorization.pages.examples.federation import shown_settings
from tests.authorization.pages.examples.groups import groups_examples
from tests.authorization.pages.examples.programs import log_examples, programs_examples
from tests.authorization.pages.examples.signals import signals_examples
from tests.authorization.pages.examples.webhooks import webhooks_examples
from valetkey.authorization.actions.admin.search import Match
from valetkey.authorization.actions.admin.server import EmailQueueSummary
from valetkey.authorization.features import AREAS
from valetkey.authorization.layout.contexts import AskingApp
from valetkey.authorization.layout.render import PageContext
from valetkey.authorization.model.event.event import CLI
from valetkey.authorization.operations.server import ROTATE_KEYS, WITHDRAW_KEY
from valetkey.authorization.operations.server_records import InvitationShown
from valetkey.authorization.site.admin.clients.client import (
    secret_page,
)
from valetkey.authorization.site.admin.clients.clients import (
    SELECTED_APPS,
)
from valetkey.authorization.site.admin.confirm import ConfirmPage, FieldShown, Impact, Offer
from valetkey.authorization.site.admin.object_page import ObjectPage, RecentEvents
from valetkey.authorization.site.admin.objects import ObjectList
from valetkey.authorization.site.admin.selected import SelectedEntry, SelectedPage
from valetkey.authorization.site.admin.server.brand import brand_form
from valetkey.authorization.site.admin.server.keys import key_list, key_page
from valetkey.authorization.site.admin.server.registration import (
    invitation_page,
    registration_page,
)
from valetkey.authorization.site.admin.server.setting_form import line_of
from valetkey.authorization.site.admin.server.settings import (
    ServerSettingsPage,
    SettingGroup,
    mail_page,
)
from valetkey.authorization.site.page import Figure
from valetkey.authorization.site.search import ResultGroup, SearchPage
from valetkey.authorization.storage.records import EventRecord
from valetkey.authorization.storage.signing_keys import SigningKeyRecord
from valetkey.config.sections.people import BrandField, BrandSettings, MailSettings
from valetkey.config.settings import RegistrationMode
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace

_NOW = Instant(1_800_000_000)
_SECRET = "vk_cs_0PZbgkQ7sXyT3mVw9LrE1aNcHfJ5uD8oKi2RtYxWqBvGp4M"
_KID = "aLK10lrmv1k2f-suxsIlNQssqmEt0DuRsaoJoQNh8Bg"
_CLIENT = "/admin/clients/app_7f3k9qxmB2"
_BUTTONS = {b.slug: b for o in AREAS["clients"] for b in o.buttons}


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
            FieldShown(field.name, field.label, tuple(field.choices), "86400")
            for field in button.fields
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


def _key(algorithm: str, starts: int, ends: int | None = None) -> SigningKeyRecord:
    retires, removed = (None, None) if ends is None else (_NOW + ends, _NOW + ends + 90_000)
    return SigningKeyRecord(
        _KID,
        "tokens",
        algorithm,
        1,
        "{}",
        "",
        Instant(_NOW + starts - 86_400),
        Instant(_NOW + starts),
        None if retires is None else Instant(retires),
        None if removed is None else Instant(removed),
    )


_KEYS = (
    _key("ES256", -100 * 86_400, -3_600),
    _key("ES256", -10 * 86_400),
    _key("ES256", 80 * 86_400),
)


def _key_list(keys: Sequence[SigningKeyRecord], done: str = "", *, may: bool = True) -> ObjectList:
    return key_list(keys, _NOW, 90 * 86_400, 86_400, may=may, done=done)


def _key_pages(hostile: AskingApp) -> Mapping[str, ObjectPage]:
    button = WITHDRAW_KEY.buttons[0]
    act = Offer(button.slug, button.title, f"/admin/keys/{_KID}/withdraw", True, button.text)
    retiring, current, following = _KEYS
    return {
        "admin_key": key_page(current, _NOW, (act,), RecentEvents((), "/admin/events"), may=True),
        "admin_key_next": key_page(following, _NOW, (act,), RecentEvents(()), may=True),
        "admin_key_retiring": key_page(replace(retiring, kid=hostile.name), _NOW),
    }


def _mail(
    transport: str = "smtp",
    tested: str = "",
    waiting: int = 2,
    *,
    listed: bool = True,
    may_test: bool = True,
) -> ObjectPage:
    """The email queue, with emails of a kind that this version does not know."""

    def event(kind: str, attempts: int, ago: int, because: str = "") -> EventRecord:
        data = json.dumps({"kind": kind, "attempts": attempts, "because": because})
        return EventRecord(
            f"ev_{ago}", Instant(_NOW - ago), "mail", None, None, None, data, CLI, None
        )

    sent = [event("verify_email", 1, 300), event("password_reset", 3, 86_000), event("<i>", 1, 9)]
    given_up = [event("new_device", 12, 9_000, "recipient rejected with 550")]
    return mail_page(
        EmailQueueSummary(waiting, sent if listed else [], given_up if listed else []),
        MailSettings(host="smtp.example.com", from_address="accounts@example.com"),
        transport,
        "ada@example.com",
        _NOW,
        tested,
        may_test=may_test,
    )


def _server(hostile: AskingApp) -> Mapping[str, PageContext]:
    rotate, withdraw = ROTATE_KEYS.buttons[0], WITHDRAW_KEY.buttons[0]
    mail = _mail()
    invitations = (
        InvitationShown("in_1", "The printing team", 19, _NOW - 7_200, _NOW + 2_592_000),
        InvitationShown("in_2", hostile.name, 1, _NOW - 90_000, _NOW + 86_400),
    )
    lines = tuple(
        line_of(replace(setting, changeable=True), may=True)
        for setting in shown_settings("tokens.access_token_lifetime", "tokens.signing_algorithms")
    )
    lines = (
        replace(lines[0], origin="file", line=12, edit_url=""),
        replace(lines[1], origin="environment", edit_url=""),
    )
    emails = tuple(
        line_of(setting, may=True) for setting in shown_settings("mail.host", "mail.port")
    )
    section = SettingGroup("tokens", "Tokens", "How long tokens are valid.", lines)
    base = BrandSettings()
    brand_values = dict.fromkeys(BrandField, "") | {
        BrandField.NAME: "Acme",
        BrandField.ACCENT: "#ffcc00",
        BrandField.LOGO_URL: "/logos/aaaaaaaaaaaaaaaaaaaaaa",
    }
    typed = {field.value: value for field, value in brand_values.items()}
    brand = brand_form(brand_values, typed, base, {}, is_preview=True)
    return {
        "admin_keys": _key_list(_KEYS),
        "admin_keys_many": _key_list((*_KEYS, _key("RS256", -86_400)), "Keys rotated."),
        "admin_keys_none": _key_list((), "Key withdrawn.", may=False),
        **_key_pages(hostile),
        "admin_keys_rotate": ConfirmPage(
            "/admin/keys/rotate",
            "/admin/keys",
            rotate.title,
            rotate.text,
            "",
            (),
            fields=tuple(
                FieldShown(field.name, field.label, tuple(field.choices), "false", field.hints)
                for field in rotate.fields
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
        "admin_mail_tested": _mail(tested="queued", waiting=1, listed=False),
        "admin_mail_refused": _mail("mailbox", tested="refused", may_test=False),
        "admin_mail_off": _mail("off"),
        "admin_registration": registration_page(
            RegistrationMode.TOKEN, "verified", "portal.who", 2_592_000, invitations, _NOW, may=True
        ),
        "admin_registration_open": registration_page(
            RegistrationMode.OPEN,
            "",
            "",
            86_400,
            (),
            _NOW,
            may=False,
            done="Invitation withdrawn. Apps registered with it are not affected.",
        ),
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
            node_files=("/etc/valetkey.toml", "/var/lib/valetkey/valetkey.keyring"),
            on_sqlite=True,
        ),
        "admin_settings_found": ServerSettingsPage((section,), "", "", text="token"),
        "admin_settings_none": ServerSettingsPage((), "", "", text=hostile.name),
        "admin_settings_changed": ServerSettingsPage((section,), "", "", changed=True),
        "admin_brand": brand,
        "admin_brand_wrong": brand_form(
            brand_values,
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
