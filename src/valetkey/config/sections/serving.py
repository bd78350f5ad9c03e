"""Settings of the servers' processes, and of certificates that they get for themselves."""

from dataclasses import dataclass
from typing import Annotated

from valetkey.config import rules
from valetkey.config.rules import text, whole

_EMAIL = text(254, 'an email address, or "" for none')


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """Certificates from an ACME authority (RFC 8555), without a proxy."""

    acme: Annotated[str, rules.LINK] = ""
    """Directory URL of the authority, such as `https://acme-v02.api.letsencrypt.org/directory`.
    Setting it means that you agree to its terms. A server whose `url` is https, without a
    `tls_certificate` of its own and without a proxy, gets its certificate there, and renews it when
    a third of its lifetime is left. The authority connects to port 443 of the host name in `url`
    (RFC 8737), so that port has to lead to `listen`. Needs the extra `valetkey[acme]`."""

    acme_email: Annotated[str, _EMAIL] = ""
    """Where the authority may send notices about the account."""

    acme_folder: Annotated[str, rules.PATH] = "acme"
    """The folder of account key and certificates, for the servers' user only. Nodes that answer for
    one host name share it."""

    acme_ca_file: Annotated[str, rules.PATH] = ""
    """PEM file with the authority to trust for the directory itself, where that is a private one.
    Empty: those that the extra brings."""


@dataclass(frozen=True, slots=True)
class ServingSettings:
    """Shutdown, and replacement of workers by `valetkey reload`."""

    drain: Annotated[int, whole(0, 600, "seconds")] = 5
    """Seconds for which a worker continues to respond after SIGTERM, while `/health/ready` returns
    503 and every response has `Connection: close`. Then it stops accepting connections and finishes
    open requests. Set it longer than your load balancer needs to notice, and than your proxy keeps
    idle connections (`keepalive_timeout` of nginx's `upstream`). SIGINT (Ctrl-C) skips it."""
