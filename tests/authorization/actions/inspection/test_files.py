"""The checks of this machine: certificates that expire, disks, clocks."""

from datetime import UTC, datetime
from pathlib import Path

from tests.fetch.test_certificate import certificate
from valetkey.authorization.actions.inspection.machine import (
    certificates,
    file_modes,
    judged_clock,
    judged_disk,
)
from valetkey.config.load import load
from valetkey.config.settings import AuthorizationSettings, Settings, SettingsSource
from valetkey.kernel.moment import Instant, days
from valetkey.kernel.replace import replace

NOON = Instant(1_800_000_000)


def test_certificate_is_judged_by_the_days_that_are_left(tmp_path: Path) -> None:
    file = tmp_path / "tls.pem"
    file.write_bytes(certificate(datetime.fromtimestamp(NOON + days(20), UTC)))
    server = AuthorizationSettings(tls_certificate="tls.pem", tls_key="tls.key")
    settings = replace(Settings(), authorization=server, source=SettingsSource(None, tmp_path))

    def condition_at(now: int) -> str:
        (finding,) = certificates(settings, Instant(now))
        return finding.condition.name

    assert condition_at(NOON - days(2)) == "certificate_good"
    assert condition_at(NOON) == "certificate"
    assert condition_at(NOON + days(18)) == "certificate"
    assert condition_at(NOON + days(19)) == "certificate_now"
    assert condition_at(NOON + days(40)) == "certificate_expired"
    file.unlink()
    assert condition_at(NOON) == "certificate_unread"


def test_clock_skew_above_ten_seconds_warns_and_above_sixty_is_an_error() -> None:
    skews = {0: "ok", 10: "ok", 11: "warning", 60: "warning", 61: "error"}
    assert {skew: judged_clock("clock", skew).level.value for skew in skews} == skews


def test_disk_finding_depends_on_free_share_and_free_bytes() -> None:
    gibibyte = 1 << 30

    def level(free: float, total: int) -> str:
        return judged_disk("a", Path("/"), int(free * gibibyte), total * gibibyte).level

    assert [level(50, 100), level(5, 100), level(0.5, 100)] == ["ok", "warning", "error"]
    assert level(20, 1_000) == "ok"
    shown = judged_disk("a", Path("/"), 5 << 20, 3 << 29).values
    assert (shown["free"], shown["total"]) == ("5.0 MiB", "1.5 GiB")


def test_file_of_the_settings_is_secret_only_if_it_has_the_password(tmp_path: Path) -> None:
    file = tmp_path / "valetkey.toml"
    environment = {"VALETKEY__RESOURCE__DATABASE": "postgresql://valetkey:hunter22@db/resource"}
    for text, expected in (
        ("", []),
        (
            "[resource]\ndatabase = 'postgresql://valetkey:hunter22@db/resource'\n",
            ["file_mode_open"],
        ),
    ):
        file.write_text(text)
        file.chmod(0o644)
        settings = load(file, environment)
        findings = [
            finding for finding in file_modes(settings, NOON) if finding.values["file"] == str(file)
        ]
        assert [finding.condition.name for finding in findings] == expected
