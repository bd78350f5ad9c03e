"""Stored values of settings: which are used, and that none can prevent a start."""

import pytest

from valetkey.authorization.portal.settings import PortalSettings
from valetkey.config.catalogue import as_text, catalogue, is_changeable, merge
from valetkey.config.rules import PATH, SECRET
from valetkey.config.settings import Origin, RegistrationMode, Settings, SettingsSource
from valetkey.kernel.moment import minutes
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.replace import replace

CHANGEABLE = [setting for setting in catalogue().values() if is_changeable(setting.path)]


def _fine(_settings: Settings) -> None:
    """Refuse nothing."""


def test_stored_values_are_used_and_named_as_such() -> None:
    stored = {"registration.mode": "open", "tokens.access_token_lifetime": "5m"}
    merged = merge(Settings(), stored, _fine)
    assert merged.settings.registration.mode is RegistrationMode.OPEN
    assert merged.settings.tokens.access_token_lifetime == minutes(5)
    assert merged.settings.source.origin("registration.mode") is Origin.STORED
    assert not merged.ignored


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("tokens.of_a_newer_version", "1"),
        ("tokens.access_token_lifetime", "never"),
        ("tokens.access_token_lifetime", "2d"),
        ("authorization.url", "https://other.example"),
        ("authorization.database", "sqlite:///other.db"),
        ("mail.host", "attacker.example"),
        ("fetch.allow", "10.0.0.0/8"),
        ("tokens.claims_file", "/tmp/claims.py"),
        ("audit.export", "https://attacker.example"),
        ("registration", "open"),
        ("", ""),
    ],
)
def test_value_that_cannot_be_used_is_ignored(path: str, text: str) -> None:
    merged = merge(Settings(), {path: text, "registration.mode": "open"}, _fine)
    assert list(merged.ignored) == [path]
    assert merged.settings.registration.mode is RegistrationMode.OPEN


@pytest.mark.parametrize("origin", [Origin.FILE, Origin.ENVIRONMENT])
def test_file_and_environment_override_stored_values(origin: Origin) -> None:
    settings = replace(Settings(), source=SettingsSource(origins={"registration.mode": origin}))
    merged = merge(settings, {"registration.mode": "open"}, _fine)
    assert merged.settings == settings
    assert "wins" in merged.ignored["registration.mode"]


def test_contradicting_values_are_ignored_and_the_others_used() -> None:
    stored = {
        "tokens.key_publication": "20d",
        "tokens.signing_key_lifetime": "30d",
        "registration.mode": "open",
    }
    merged = merge(Settings(), stored, _fine)
    assert set(merged.ignored) == {"tokens.key_publication", "tokens.signing_key_lifetime"}
    assert merged.settings.registration.mode is RegistrationMode.OPEN


def test_value_that_the_server_would_refuse_is_ignored() -> None:
    def check(settings: Settings) -> None:
        if settings.section(PortalSettings).scopes:
            raise OperatorError("unknown scope", "portal.scopes")

    stored = {"portal.scopes": "nothing", "registration.mode": "open"}
    merged = merge(Settings(), stored, check)
    assert list(merged.ignored) == ["portal.scopes"]
    assert merged.settings.registration.mode is RegistrationMode.OPEN


@pytest.mark.parametrize("setting", CHANGEABLE, ids=lambda setting: setting.path)
def test_changeable_setting_is_no_secret_and_survives_as_text(setting: object) -> None:
    catalogued = next(changeable for changeable in CHANGEABLE if changeable is setting)
    assert catalogued.rule not in {PATH, SECRET}
    text = as_text(catalogued, catalogued.default)
    assert catalogued.rule.read(catalogued.rule.from_text(text)) == catalogued.default
