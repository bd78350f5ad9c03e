"""One example of every page around links in emails, and those that are hardest to lay out."""

from collections.abc import Mapping

from tests.authorization.pages.examples.account import ago
from valetkey.authorization.email.message import Paragraph
from valetkey.authorization.layout.contexts import AskingApp
from valetkey.authorization.layout.render import PageContext
from valetkey.authorization.site.account.email_address import (
    EmailDonePage,
    EmailLinkPage,
    EmailPage,
)
from valetkey.authorization.site.emailed_link import (
    CheckEmailPage,
    InvalidLinkPage,
    LinkSubject,
    Resend,
)
from valetkey.authorization.site.mailbox import ListedEmail, MailboxEmailPage, MailboxPage
from valetkey.authorization.site.password_reset import ResetDonePage, ResetPage, ResetRequestPage
from valetkey.authorization.site.sign_up import FinishSignUpPage, SignUpClosedPage, SignUpPage
from valetkey.kernel.replace import replace

_NEW, _IN = "/account/new", "/oauth/sign-in"
_GRACE = "grace@example.com"
_LONG = "a.very.long.address.that.somebody.really.has.had.since.1997@" + "x" * 60 + ".example.com"
_HOSTILE = '"><script>alert(1)</script>{{ 7*7 }}'
_LINK = "https://auth.example.com/account/reset?link=vk_ln_" + "4Kz9" * 12
_WRONG = {"username": "taken", "email": "wrong", "name": "wrong", "new": "common"}

_RESEND = Resend(_NEW, "again", "v1.sealed")


def mailed_examples(app: AskingApp, hostile: AskingApp) -> Mapping[str, PageContext]:
    """Sign-up, recovery, address and mailbox; `app` sends people here, `hostile` as well."""
    return {
        **_sign_up(app, hostile),
        **_recovery(),
        **_email(),
        "mailbox": MailboxPage(
            (
                ListedEmail("/mailbox/ml_1", _GRACE, "Finish creating your account", ago(20)),
                ListedEmail("/mailbox/ml_2", _LONG, "Choose a new password", ago(7_000)),
            ),
            "/mailbox",
        ),
        "mailbox-empty": MailboxPage((), "/mailbox"),
        "mailbox-email": MailboxEmailPage(
            _GRACE,
            "Reset your Valetkey password",
            (
                Paragraph("A password reset was requested for the account grace."),
                Paragraph(_LINK),
                Paragraph("The link works once. If you did not request it, ignore this email."),
            ),
            ago(20),
            "/mailbox",
        ),
    }


def _sign_up(app: AskingApp, hostile: AskingApp) -> Mapping[str, PageContext]:
    return {
        "sign-up": SignUpPage(_NEW, _IN, 8),
        "sign-up-for-app": SignUpPage(_NEW, _IN, 8, app),
        "sign-up-wrong": SignUpPage(_NEW, _IN, 8, None, "ada", "grace@", "Grace", faults=_WRONG),
        "sign-up-wait": SignUpPage(_NEW, _IN, 8, None, "grace", _GRACE, wait=1_300),
        "sign-up-invited": SignUpPage(_NEW, _IN, 8, email=_LONG, invited=True),
        "sign-up-hostile": SignUpPage(
            _NEW, _IN, 8, hostile, _HOSTILE, _HOSTILE, _HOSTILE, faults=_WRONG
        ),
        "sign-up-closed": SignUpClosedPage(_IN, by_invitation=False),
        "sign-up-by-invitation": SignUpClosedPage(_IN, by_invitation=True),
        "sign-up-sent": CheckEmailPage(LinkSubject.SIGN_UP, _GRACE, _NEW, _RESEND, _IN),
        "sign-up-sent-demo": CheckEmailPage(
            LinkSubject.SIGN_UP, _GRACE, _NEW, replace(_RESEND, done=True), _IN, "/mailbox"
        ),
        "sign-up-finish": FinishSignUpPage(_NEW, "vk", "grace", _GRACE, asks_password=False),
        "sign-up-elsewhere": FinishSignUpPage(
            _NEW, "vk", "grace", _LONG, asks_password=True, wrong=True
        ),
        "sign-up-link-dead": InvalidLinkPage(LinkSubject.SIGN_UP, _NEW),
        "sign-up-taken": InvalidLinkPage(LinkSubject.SIGN_UP, _NEW, taken=True),
        "invitation-dead": InvalidLinkPage(LinkSubject.INVITATION, _IN),
    }


def _recovery() -> Mapping[str, PageContext]:
    where = "/account/forgotten"
    return {
        "forgotten": ResetRequestPage(where, _IN, sends_mail=True),
        "forgotten-empty": ResetRequestPage(where, _IN, sends_mail=True, empty=True),
        "forgotten-wait": ResetRequestPage(where, _IN, True, "grace", wait=40),
        "forgotten-no-mail": ResetRequestPage(where, _IN, sends_mail=False),
        "forgotten-sent": CheckEmailPage(
            LinkSubject.PASSWORD,
            _HOSTILE,
            where,
            Resend(where, "name", _HOSTILE, done=True),
        ),
        "reset": ResetPage("/account/reset", "vk", "grace", 8),
        "reset-wrong": ResetPage("/account/reset", "vk", "grace", 8, "common"),
        "reset-first": ResetPage("/account/reset", "vk", "grace", 8, is_first=True),
        "reset-first-wrong": ResetPage("/account/reset", "vk", "grace", 8, "short", is_first=True),
        "reset-done": ResetDonePage(_IN),
        "reset-first-done": ResetDonePage(_IN, is_first=True),
        "reset-dead": InvalidLinkPage(LinkSubject.PASSWORD, where),
    }


def _email() -> Mapping[str, PageContext]:
    where = "/account/email"
    return {
        "email": EmailPage(where, _GRACE, verified=True, sends_mail=True),
        "email-unproven": EmailPage(where, _LONG, verified=False, sends_mail=True),
        "email-sent": EmailPage(where, _GRACE, True, True, sent_to=_LONG),
        "email-wrong": EmailPage(where, _GRACE, True, True, _HOSTILE, "wrong"),
        "email-held": EmailPage(where, _GRACE, True, True, "g@example.com", "held"),
        "email-wait": EmailPage(where, _GRACE, True, True, wait=900),
        "email-no-mail": EmailPage(where, _GRACE, verified=False, sends_mail=False),
        "email-confirm": EmailLinkPage(where, "vk", "change", "grace", _LONG),
        "email-undo": EmailLinkPage(where, "vk", "undo", _HOSTILE, _GRACE),
        "email-done": EmailDonePage(_GRACE, "/"),
        "email-link-dead": InvalidLinkPage(LinkSubject.EMAIL_CHANGE, where),
        "email-undo-dead": InvalidLinkPage(LinkSubject.EMAIL_UNDO, "/"),
    }
