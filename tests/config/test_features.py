"""The sections of features are settings like all others."""

from pathlib import Path

import pytest

from valetkey.authorization.scim.settings import ScimSettings
from valetkey.config.catalogue import Effect, catalogue, effect_of, explain, merge
from valetkey.config.load import OperatorErrors, load
from valetkey.config.settings import Origin, Settings

_RATE = "scim.requests_per_minute"


def _loaded(folder: Path, text: str, **environment: str) -> Settings:
    file = folder / "valetkey.toml"
    file.write_text(text)
    return load(file, environment)


def _fine(settings: Settings) -> None:
    del settings


def test_section_of_a_feature_is_read_from_file_and_environment(tmp_path: Path) -> None:
    settings = _loaded(
        tmp_path,
        f"[scim]\nenabled = true\n{_RATE.partition('.')[2]} = 7",
        VALETKEY__SCIM__REQUESTS_PER_MINUTE="8",
    )
    assert settings.section(ScimSettings) == ScimSettings(enabled=True, requests_per_minute=8)
    origins = [settings.source.origin(path) for path in ("scim.enabled", _RATE)]
    assert origins == [Origin.FILE, Origin.ENVIRONMENT]
    assert [line.value for line in explain(settings, "scim")] == [True, 8]


def test_section_of_a_feature_has_its_defaults(tmp_path: Path) -> None:
    assert Settings().section(ScimSettings) == ScimSettings()
    settings = _loaded(tmp_path, "[scim]\nenabled = false")
    assert settings == load(tmp_path / "valetkey.toml", {"VALETKEY__SCIM__ENABLED": "false"})
    assert settings.features == ()
    assert [line.value for line in explain(settings, "scim")] == [False, 1_200]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[scim]\nenabled = 3", "scim.enabled: 3 is neither true nor false; write true or false"),
        ("[scim]\nenable = true", "scim.enable: unknown setting; did you mean enabled?"),
        ("[scym]\nenabled = true", "scym: unknown section; did you mean [scim]?"),
    ],
)
def test_mistake_in_the_section_of_a_feature_is_reported(
    tmp_path: Path, text: str, problem: str
) -> None:
    with pytest.raises(OperatorErrors) as caught:
        _loaded(tmp_path, text)
    assert [str(error) for error in caught.value.problems] == [problem]


def test_stored_value_of_a_feature_is_used_until_it_is_removed() -> None:
    base = Settings()
    assert effect_of(_RATE) is Effect.CONSOLE
    merged = merge(base, {_RATE: "9", "scim.enabled": "true"}, _fine)
    assert not merged.ignored
    assert merged.settings.section(ScimSettings) == ScimSettings(True, 9)
    assert merged.settings.source.origin(_RATE) is Origin.STORED
    assert merge(merged.settings, {}, _fine).settings == merged.settings
    again = merge(base, {_RATE: "9", "scim.enabled": "true"}, _fine).settings
    assert again == merged.settings
    assert again != base
    assert merge(base, {}, _fine).settings == base


def test_stored_value_of_a_feature_that_is_gone_is_ignored() -> None:
    merged = merge(Settings(), {"gone.enabled": "true"}, _fine)
    assert merged.ignored == {"gone.enabled": "this version does not have the setting"}
    assert "gone.enabled" not in catalogue()


def test_stored_value_of_a_file_only_setting_is_ignored() -> None:
    assert effect_of("device.interval") is Effect.CONSOLE
    assert effect_of("federation.providers") is not Effect.CONSOLE
    merged = merge(Settings(), {"federation.providers": "[]"}, _fine)
    assert merged.ignored.keys() == {"federation.providers"}
