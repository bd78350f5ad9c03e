"""Explaining settings: complete, reasoned, and without secrets."""

import pytest

from valetkey.config.catalogue import catalogue, explain, reasons
from valetkey.config.load import load
from valetkey.config.settings import Origin
from valetkey.kernel.refusal import OperatorError


def test_every_setting_has_a_reason_and_a_valid_default() -> None:
    assert set(reasons()) == set(catalogue())
    for setting in catalogue().values():
        assert reasons()[setting.path].endswith((".", ":", ")")), setting.path
        shown = setting.shown(setting.default)
        if not setting.rule.only_by_environment:
            assert setting.rule.read(shown) == setting.default, setting.path


def test_value_is_explained_with_its_origin_and_default() -> None:
    settings = load(None, {"VALETKEY__TOKENS__ACCESS_TOKEN_LIFETIME": "600s"})
    (line,) = explain(settings, "tokens.access_token_lifetime")
    assert (line.value, line.origin, line.default) == ("10m", Origin.ENVIRONMENT, "1h")
    assert "RFC 9068" in line.reason


def test_secrets_are_never_shown() -> None:
    settings = load(
        None,
        {
            "VALETKEY__AUTHORIZATION__KEYRING_TEXT": "hunter2",
            "VALETKEY__RESOURCE__CREDENTIAL_TEXT": "hunter2",
            "VALETKEY__AUTHORIZATION__DATABASE": "postgresql://me:hunter2@host/x?password=hunter2",
        },
    )
    text = repr(explain(settings)) + repr(settings)
    assert "hunter2" not in text
    assert "postgresql://me:…@host/x?password=…" in text


def test_section_and_variable_name_select_settings() -> None:
    settings = load(None, {})
    assert {line.path.split(".")[0] for line in explain(settings, "brand")} == {"brand"}
    assert explain(settings, "VALETKEY__LOG__LEVEL") == explain(settings, "log.level")
    assert len(explain(settings)) == len(catalogue())


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(OperatorError, match=r"did you mean tokens\.access_token_lifetime"):
        explain(load(None, {}), "token.access_lifetime")
