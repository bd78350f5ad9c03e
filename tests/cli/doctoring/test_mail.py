"""What `valetkey doctor` says of the mail server."""

import asyncio

from tests.authorization.background.test_post import mail_settings
from tests.support.mail import mail_server
from valetkey.authorization.actions.inspection.check import Finding, Level
from valetkey.authorization.actions.inspection.queues import mail
from valetkey.config.sections.people import MailSettings, MailTls, MailTransport
from valetkey.config.settings import Settings
from valetkey.kernel.replace import replace


def found(section: MailSettings) -> Finding:
    """The one thing that is said."""
    settings = replace(Settings(), mail=section)

    return asyncio.run(mail(settings))


def test_disabled_mail_is_a_warning_with_its_consequence_and_fix() -> None:
    assert found(MailSettings()).level is Level.WARNING
    assert "cannot reset passwords" in found(MailSettings()).sentence
    assert "mail.host" in found(MailSettings()).fix


def test_mailbox_transport_is_a_warning() -> None:
    assert found(MailSettings(transport=MailTransport.MAILBOX)).level is Level.WARNING


def test_a_mail_server_that_answers_is_good() -> None:
    with mail_server() as server:
        assert found(mail_settings(server.port)).level is Level.OK
        assert server.took == []


def test_mail_problems_are_reported() -> None:
    with mail_server() as server:
        without_tls = found(mail_settings(server.port, tls=MailTls.STARTTLS))
        assert "no support for STARTTLS" in without_tls.sentence
    assert "no connection" in found(mail_settings(1)).sentence
    assert found(mail_settings(1, password_file="nowhere", user="me")).level is Level.ERROR
