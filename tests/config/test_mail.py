"""The section of mail: letters never travel in clear, and nobody reads those of others."""

import pytest

from valetkey.config.agreement import disagreements
from valetkey.config.catalogue import catalogue
from valetkey.config.rules import InvalidValue
from valetkey.config.sections.people import MailSettings, MailTls, MailTransport
from valetkey.config.settings import Settings
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import Secret

GOOD = MailSettings(host="mail.example", from_address="no-reply@auth.example")


def wrong(mail: MailSettings, url: str = "https://auth.example") -> list[str]:
    """The settings that something is wrong with."""
    defaults = Settings()
    server = replace(defaults.authorization, url=url, tls_proxy=url.startswith("https"))
    settings = replace(defaults, authorization=server, mail=mail)
    return [problem.path for problem in disagreements(settings) if problem.path.startswith("mail.")]


@pytest.mark.parametrize(
    ("change", "paths"),
    [
        ({}, []),
        ({"tls": MailTls.IMPLICIT}, []),
        ({"tls": MailTls.NONE}, ["mail.tls"]),
        ({"tls": MailTls.NONE, "host": "127.0.0.1"}, []),
        ({"from_address": ""}, ["mail.from_address"]),
        ({"user": "me"}, ["mail.password_file"]),
        ({"user": "me", "password": Secret("x")}, []),
        ({"user": "me", "password_file": "x"}, []),
        ({"password_file": "x"}, ["mail.user"]),
        ({"transport": MailTransport.MAILBOX}, ["mail.transport"]),
        ({"host": "", "from_address": ""}, []),
    ],
)
def test_contradicting_mail_settings_are_reported(
    change: dict[str, object], paths: list[str]
) -> None:
    assert wrong(replace(GOOD, **change)) == paths  # type: ignore[arg-type]


def test_mailbox_transport_requires_a_loopback_url() -> None:
    box = MailSettings(transport=MailTransport.MAILBOX)
    assert wrong(box, "http://127.0.0.1:8400") == []
    assert wrong(box, "https://auth.example") == ["mail.transport"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("from_address", "nobody"),
        ("from_address", "a@b\r\nBcc: x"),
        ("from_address", "<a@b>"),
        ("from_address", "a@b, c@d"),
        ("host", "mail.example:25"),
        ("host", "mail example"),
        ("tls", "maybe"),
        ("port", 65_536),
    ],
)
def test_invalid_mail_address_host_and_port_are_refused(name: str, value: object) -> None:
    with pytest.raises(InvalidValue):
        catalogue()[f"mail.{name}"].rule.read(value)


def test_default_mail_port_follows_the_encryption() -> None:
    ports = [MailSettings(tls=tls).used_port for tls in MailTls]
    assert ports == [587, 465, 25]
    assert MailSettings(port=2_525).used_port == 2_525
