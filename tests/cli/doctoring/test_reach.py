"""What the checks of public URLs trust."""

from pathlib import Path

from tests.sdk.certificate import self_signed
from valetkey.cli.doctoring import certificate_advice, trust_of_settings
from valetkey.config.sections.serving import FetchSettings
from valetkey.config.settings import Settings, SettingsSource
from valetkey.kernel.replace import replace


def test_internal_authority_of_the_settings_is_trusted(tmp_path: Path) -> None:
    settings = replace(Settings(), source=SettingsSource(None, tmp_path))
    certificate, _ = self_signed(tmp_path)
    trusting = replace(settings, fetch=FetchSettings(ca_file=certificate.name))
    count, more = (
        trust_of_settings(configuration).cert_store_stats()["x509"]
        for configuration in (settings, trusting)
    )
    assert more == count + 1


def test_advice_depends_on_why_the_certificate_is_refused() -> None:
    not_yet, expired, wrong_host = (certificate_advice(code) for code in (9, 10, 62))
    assert "clock" in not_yet
    assert "Renew" in expired
    assert "host name" in wrong_host
