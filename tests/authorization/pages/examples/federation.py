"""The pages of who signs in from another server."""

from collections.abc import Mapping

from valetkey.authorization.layout.contexts import When
from valetkey.authorization.layout.render import PageContext
from valetkey.authorization.operations.settings import SettingShown
from valetkey.authorization.protocol.register.faults import MetadataError, input_fault
from valetkey.authorization.providers.model import ProviderWanted
from valetkey.authorization.providers.pages import console
from valetkey.authorization.providers.pages.account import (
    Connection,
    ConnectionsPage,
)
from valetkey.authorization.providers.pages.console import FAULTS
from valetkey.authorization.providers.pages.visitor import FailedPage, UnlinkedIdentityPage
from valetkey.authorization.site.admin.input_fields import input_fields
from valetkey.authorization.site.admin.input_form import InputFormPage
from valetkey.authorization.site.admin.object_page import Fact, ObjectPage, Related
from valetkey.authorization.site.admin.objects import Line, LineButton, Part, badge, code, words
from valetkey.authorization.site.admin.server.setting_form import form_page, line_of
from valetkey.authorization.site.admin.server.settings import (
    ServerSettingsPage,
    SettingGroup,
)
from valetkey.authorization.site.sign_in.sign_in import SignInLink, SignInPage
from valetkey.config.catalogue import as_text, catalogue, explain
from valetkey.config.settings import Settings
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace

NOW = Instant(1_800_000_000)
GOOGLE = SignInLink("google", "Google", "/oauth/sign-in/with/google?csrf=c")
GITHUB = SignInLink("github", "GitHub", "/oauth/sign-in/with/github?csrf=c")


def federation_examples() -> Mapping[str, PageContext]:
    """Each page, in the states in which it looks different."""
    arrived = UnlinkedIdentityPage(
        provider="Google",
        shown="ada@example.com",
        action="/oauth/sign-in/arrived",
        sign_in="/oauth/sign-in?to=/account/connections",
        username="ada",
        name="Ada Lovelace",
        email="ada@example.com",
    )
    connected = Connection(
        "key",
        "Google",
        "ada@example.com",
        When(Instant(NOW - 86_400 * 40), NOW),
        When(Instant(NOW - 600), NOW),
        can_end=True,
    )
    only = Connection("key2", "GitHub", "ada", When(NOW, NOW), None, can_end=False)
    return {
        "sign_in_elsewhere": SignInPage("/oauth/sign-in", links=(GOOGLE, GITHUB)),
        "arrived": arrived,
        "arrived_wrong": replace(
            arrived,
            username="ada lovelace",
            faults={"username": "Take another: letters and digits without spaces."},
        ),
        "arrived_taken": replace(arrived, action="", taken=True),
        "arrived_unlinked": replace(arrived, action=""),
        "failed": FailedPage("Google", "/oauth/sign-in", "7K2M-QX4T-9WPA"),
        "failed_declined": FailedPage("Google", "/oauth/sign-in", declined=True),
        "connections_none": ConnectionsPage("/account/connections", (), (GOOGLE, GITHUB)),
        "connections": ConnectionsPage(
            "/account/connections",
            (connected, only),
            (GOOGLE, GITHUB),
            connected="Google",
        ),
        "connections_arrived": ConnectionsPage(
            "/account/connections",
            (connected,),
            (GITHUB,),
            arrived_from="GitHub",
            arrived_as="ada",
        ),
        "connections_taken": ConnectionsPage(
            "/account/connections", (connected,), (GITHUB,), taken="GitHub"
        ),
        **_console(),
        **_settings(),
    }


def shown_settings(*paths: str) -> tuple[SettingShown, ...]:
    """Settings at their defaults, as the admin API shows them."""
    return tuple(
        SettingShown(
            setting.path,
            setting.value,
            setting.origin.value,
            setting.default,
            setting.variable,
            setting.reason,
            label=catalogue()[setting.path].label,
            group=catalogue()[setting.path].group.value,
        )
        for setting in explain(Settings())
        if setting.path in paths
    )


def _settings() -> Mapping[str, PageContext]:
    """Settings that are changed at runtime, and a form of each kind."""
    paths = {
        "tokens.access_token_lifetime": "30m",
        "registration.mode": "open",
        "portal.grant_types": ["authorization_code"],
        "registration.scopes": ["notes:read"],
        "device.wrong_codes": 5,
        "privacy.record_ip_addresses": False,
        "scim.requests_per_minute": 60,
    }
    shown = {
        setting.path: replace(
            setting, value=paths[setting.path], origin="stored", stored="x", changeable=True
        )
        for setting in shown_settings(*paths)
    }
    lines = tuple(line_of(setting, may=True) for setting in shown.values())
    ignored = replace(lines[0], ignored="it is set in the environment, which wins", stored="1s")
    group = SettingGroup("tokens", "Tokens", "How long tokens are valid.", (*lines[1:], ignored))
    forms = {
        path: form_page(
            catalogue()[path], setting, as_text(catalogue()[path], catalogue()[path].default)
        )
        for path, setting in shown.items()
    }
    duration = forms["tokens.access_token_lifetime"]
    return {
        "admin_settings_stored": ServerSettingsPage((group,), "", "", text="token", done="Saved."),
        **{f"admin_setting_{form.kind}_{i}": form for i, form in enumerate(forms.values())},
        "admin_setting_wrong": replace(duration, out_of_range=True, typed=("never",), stale=True),
    }


def _console() -> Mapping[str, PageContext]:
    """The pages of the console."""
    page = ObjectPage(
        "/admin/providers",
        "Sign-in providers",
        "Google",
        state=(badge("Active", "good"),),
        notes=(Part("words", next(iter(FAULTS.values())), small="status 404", tone="alarm"),),
        facts=(
            Fact(
                "Redirect URI to register there",
                (
                    Part(
                        "copy",
                        "https://auth.example/oauth/sign-in/with/google/callback",
                        small="redirect-uri",
                    ),
                ),
            ),
            Fact("Issuer", (code("https://accounts.google.com"),)),
        ),
        related=(
            Related(
                "test",
                "Test",
                (
                    Line(
                        words("The test does what a sign-in does, with an invalid code."),
                        act=LineButton(
                            "/admin/providers/google/test",
                            "Test connection",
                            "Test connection",
                            "Google",
                            (("provider", "google"),),
                            "test",
                        ),
                    ),
                ),
            ),
        ),
    )
    google, microsoft = console.PRESETS[:2]
    faults = (
        input_fault("issuer", "claim.link"),
        MetadataError("client_secret", "the client secret from the provider"),
    )
    form = _provider_form(google)
    wrong = {"id": "microsoft", "name": "Microsoft", "issuer": "login"}
    return {
        "admin_provider": page,
        "admin_provider_new": console.CHOICE,
        "admin_provider_google": form,
        "admin_provider_wrong": _provider_form(microsoft, wrong, faults),
        "admin_provider_edit": replace(form, hidden=(), etag='"1"', stale=True),
    }


def _provider_form(
    preset: console.Preset,
    typed: Mapping[str, str] | None = None,
    faults: tuple[MetadataError, ...] = (),
) -> InputFormPage:
    """The form for a new provider."""
    subject = console.preset_subject("https://auth.example", preset)
    fields = input_fields(
        ProviderWanted,
        console.WORDS,
        subject.values if typed is None else typed,
        faults,
        choices={"kind": console.KINDS},
        groups=console.GROUPS,
        secrets=("client_secret",),
    )
    return InputFormPage(
        action=console.NEW,
        back=subject.back,
        above=subject.above,
        title="New provider",
        submit="Add provider",
        fields=fields,
        note=subject.note,
        facts=subject.facts,
        hidden=tuple(subject.hidden),
    )
