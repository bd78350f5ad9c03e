"""The processes of the servers: their certificates, databases and outgoing requests."""

# ruff: noqa: RUF009 - `seconds(1)` is a number: nothing that two settings could share and change

from dataclasses import dataclass
from typing import Annotated, ClassVar

from valetkey.config import rules
from valetkey.config.rules import Group, Network, text, whole
from valetkey.database.engine import Timeouts
from valetkey.kernel.moment import Lifetime, minutes, seconds

_EMAIL = text(254, 'an email address, or "" for none')


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """Certificates from an ACME authority (RFC 8555), without a proxy."""

    GROUP: ClassVar = Group.NETWORK

    acme: Annotated[str, rules.LINK, "Directory of the certificate authority (ACME)"] = ""
    """Directory URL of the authority, such as `https://acme-v02.api.letsencrypt.org/directory`.
    Setting it means that you agree to its terms. A server whose `url` is https, without a
    `tls_certificate` of its own and without a proxy, gets its certificate there, and renews it when
    a third of its lifetime is left. The authority connects to port 443 of the host name in `url`
    (RFC 8737), so that port has to lead to `listen`. Needs the extra `valetkey[acme]`."""

    acme_email: Annotated[str, _EMAIL, "Email address for the certificate authority"] = ""
    """Where the authority may send notices about the account."""

    acme_folder: Annotated[str, rules.PATH, "Folder of obtained certificates"] = "acme"
    """The folder of account key and certificates, for the servers' user only. Nodes that answer for
    one host name share it."""

    acme_ca_file: Annotated[str, rules.PATH, "Certificates to trust for ACME"] = ""
    """PEM file with the certificate authority of the ACME server's own address, if it is a private
    one. Empty: the public authorities that come with the extra."""


@dataclass(frozen=True, slots=True)
class ServingSettings:
    """Shutdown, and replacement of workers by `valetkey reload`."""

    GROUP: ClassVar = Group.NETWORK

    drain: Annotated[int, whole(0, 600, "seconds"), "Seconds to finish requests at a stop"] = 5
    """Seconds for which a worker continues to respond after SIGTERM, while `/health/ready` returns
    503 and every response has `Connection: close`. Then it stops accepting connections and finishes
    open requests. Set it longer than your load balancer needs to notice, and than your proxy keeps
    idle connections (`keepalive_timeout` of nginx's `upstream`). SIGINT (Ctrl-C) skips this
    wait."""


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """Outgoing requests of the authorization server to URLs that clients registered."""

    GROUP: ClassVar = Group.NETWORK

    allow: Annotated[
        tuple[Network, ...], rules.NETWORKS, "Internal networks that may be called"
    ] = ()
    """Private networks that may be requested; there, http and other ports are allowed too. Empty:
    only https on port 443 of public addresses, so that clients cannot make this server reach
    internal services."""

    ca_file: Annotated[str, rules.PATH, "Certificates to trust for requests"] = ""
    """PEM file with certificates to trust in addition to those of the system. The resource server
    trusts them, too, when it calls the authorization server."""


@dataclass(frozen=True, slots=True)
class DatabaseSettings:
    """Time limits for the databases of both servers. A request that exceeds one gets 503."""

    GROUP: ClassVar = Group.NETWORK

    answer_timeout: Annotated[
        Lifetime, rules.lifetime("1s", "5m"), "Longest wait for an answer of the database"
    ] = seconds(10)
    """The longest wait for one transaction: queue, connection, statements and commit together. Then
    the request is answered with 503 and `Retry-After`, even if the database hangs. A transaction
    that has not begun to commit by then is not committed any more. Without this bound, requests
    wait for as long as a server is frozen or a synchronous standby is gone."""

    connect_timeout: Annotated[
        Lifetime, rules.lifetime("2s", "1m"), "Longest wait for a connection to the database"
    ] = seconds(5)
    """The longest wait for a new connection to PostgreSQL, for each host of a URL with several.
    `connect_timeout` in the URL takes precedence."""

    statement_timeout: Annotated[Lifetime, rules.lifetime("1s", "5m"), "Longest statement"] = (
        seconds(5)
    )
    """PostgreSQL ends a statement that runs longer. Every statement of a request is a look-up by
    key, so a longer one points to a problem with the disk or the server."""

    lock_timeout: Annotated[Lifetime, rules.lifetime("1s", "1m"), "Longest wait for a lock"] = (
        seconds(3)
    )
    """The longest wait for a lock. On SQLite, the longest wait until another process, such as a
    second worker or the command line, has finished writing."""

    report_timeout: Annotated[
        Lifetime, rules.lifetime("1s", "10m"), "Longest statement of a report"
    ] = minutes(1)
    """Time limit for requests that list or count many rows, instead of `answer_timeout`."""

    start_timeout: Annotated[
        Lifetime, rules.lifetime("1s", "1h"), "Longest wait for the database at start"
    ] = minutes(1)
    """How long `valetkey serve` waits at start for a database that does not respond, for example
    after a power cut. Then it exits with the reason."""

    connections: Annotated[int, whole(1, 100, "connections"), "Connections to the database"] = 4
    """Connections to PostgreSQL in each worker; one more watches for changes. All workers together
    must stay below `max_connections` of the server."""

    @property
    def timeouts(self) -> Timeouts:
        """The bounds of every wait."""
        return Timeouts(
            connect=self.connect_timeout,
            statement=self.statement_timeout,
            lock=self.lock_timeout,
            report=self.report_timeout,
            answer=self.answer_timeout,
        )
