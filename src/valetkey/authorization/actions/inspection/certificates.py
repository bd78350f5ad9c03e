"""Checks of the servers' certificate files."""

import ssl

from valetkey.authorization.actions.inspection.check import (
    Condition,
    Finding,
    Findings,
    Level,
    MachineCheck,
    day,
    moment,
)
from valetkey.config.agreement import servers
from valetkey.config.paths import certificate_files, failed_orders, uses_acme
from valetkey.config.settings import Settings
from valetkey.fetch.certificate import expiry_of
from valetkey.kernel.moment import Instant, days
from valetkey.kernel.words import translatable

_SOON = days(21)
_NOW = days(2)
_PAGE = "how-to/operate/renew-certificates"

CERTIFICATE = Condition(
    "certificate",
    Level.WARNING,
    "%(server)s certificate",
    translatable("The certificate for %(server)s expires on %(day)s."),
    translatable(
        "Renew it, at the proxy if that terminates TLS. Servers load new files automatically."
    ),
    page=_PAGE,
)
CERTIFICATE_NOW = CERTIFICATE.as_bad("certificate_now")
CERTIFICATE_EXPIRED = Condition(
    "certificate_expired",
    Level.ERROR,
    "%(server)s certificate",
    translatable("The certificate for %(server)s expired on %(day)s."),
    CERTIFICATE.fix,
    page=_PAGE,
)
CERTIFICATE_GOOD = CERTIFICATE.as_good("certificate_good")
CERTIFICATE_UNREAD = Condition(
    "certificate_unread",
    Level.ERROR,
    "%(server)s certificate",
    translatable("The certificate %(file)s cannot be read: the server would not start."),
    translatable("Correct tls_certificate and tls_key, or the modes of the files."),
    page=_PAGE,
)
ACME = Condition(
    "acme",
    Level.ERROR,
    "%(server)s certificate by ACME",
    translatable(
        "%(authority)s did not issue a certificate. Failed orders: %(times)s, the last at %(at)s."
    ),
    translatable(
        "For the reason, see certificate.not_issued in the log. Port 443 of the host in url must "
        "lead to this server."
    ),
    page=_PAGE,
)


def certificates(settings: Settings, now: Instant) -> Findings:
    """Judge the certificate files of both servers, as far as they are on this machine."""
    for name, server in servers(settings):
        files = certificate_files(settings, server)
        if files is None:
            continue
        try:
            # The library tells what expiry_of does not: a file without a usable chain.
            ssl.create_default_context(cafile=files[0])
            until = expiry_of(files[0].read_bytes())
        except OSError:
            until = None
        if until is None:
            yield CERTIFICATE_UNREAD.found(server=name, file=files[0])
        else:
            yield judged_certificate(name, until, now)


def judged_certificate(server: str, until: Instant, now: Instant) -> Finding:
    """Return the finding for a certificate that expires at `until`."""
    condition = CERTIFICATE_GOOD
    if until <= now:
        condition = CERTIFICATE_EXPIRED
    elif until - now < _NOW:
        condition = CERTIFICATE_NOW
    elif until - now < _SOON:
        condition = CERTIFICATE
    return condition.found(server=server, day=day(until))


def orders(settings: Settings, _: Instant) -> Findings:
    """Report that the authority of `tls.acme` refused the last orders."""
    for name, server in servers(settings):
        if uses_acme(settings, server):
            times, last = failed_orders(settings, server)
            if times:
                shown = {"authority": settings.tls.acme, "times": times, "at": moment(last)}
                yield ACME.found(server=name, **shown)


CHECKS = (
    MachineCheck(
        "certificates",
        certificates,
        (
            CERTIFICATE,
            CERTIFICATE_NOW,
            CERTIFICATE_EXPIRED,
            CERTIFICATE_GOOD,
            CERTIFICATE_UNREAD,
        ),
    ),
    MachineCheck("orders", orders, (ACME,)),
)
