"""How the servers run: processes, certificates, databases, log, metrics; the API."""

# ruff: noqa: RUF009 - `days(30)` is a number: nothing that two settings could share and change

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, ClassVar, cast
from urllib.parse import urlsplit

from valetkey.config import rules
from valetkey.config.rules import (
    InvalidValue,
    Network,
    SettingsGroup,
    quoted,
    show_lifetime,
    text,
    whole,
)
from valetkey.database.engine import Timeouts
from valetkey.kernel.moment import Lifetime, days, minutes, seconds
from valetkey.kernel.secret import Secret
from valetkey.kernel.text import translatable

_EMAIL = text(254, 'an email address, or "" for none')


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """Certificates from an ACME authority (RFC 8555), without a proxy."""

    GROUP: ClassVar = SettingsGroup.NETWORK

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

    GROUP: ClassVar = SettingsGroup.NETWORK

    drain: Annotated[int, whole(0, 600, "seconds"), "Seconds to finish requests at a stop"] = 5
    """Seconds for which a worker continues to respond after SIGTERM, while `/health/ready` returns
    503 and every response has `Connection: close`. Then it stops accepting connections and finishes
    open requests. Set it longer than your load balancer needs to notice, and than your proxy keeps
    idle connections (`keepalive_timeout` of nginx's `upstream`). SIGINT (Ctrl-C) skips this
    wait."""


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """Outgoing requests of the authorization server to URLs that clients registered."""

    GROUP: ClassVar = SettingsGroup.NETWORK

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

    GROUP: ClassVar = SettingsGroup.NETWORK

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


_EVENT = re.compile(r"[a-z_]{1,60}(\.[a-z_]{1,60})?", re.ASCII)
_SERVICE = re.compile(r"[A-Za-z0-9._-]+", re.ASCII)
_KEPT = rules.lifetime("1d", "3650d")


def _kept(written: str) -> object:
    name, equals, length = written.partition("=")
    if not equals or not _EVENT.fullmatch(name):
        raise InvalidValue(f"{quoted(written)} is not an event and a length of time")
    return name, _KEPT.read(length)


def _show_kept(value: object) -> str:
    name, length = cast("tuple[str, Lifetime]", value)
    return f"{name}={show_lifetime(length)}"


def _destination(written: str) -> object:
    try:
        parts = urlsplit(written)
        port = parts.port
    except ValueError:
        raise InvalidValue(f"{quoted(written)} is not a URL") from None
    plain = not (parts.username or parts.password or parts.query or parts.fragment)
    remote = bool(parts.hostname) and port != 0
    right = {
        "file": bool(parts.path) and not parts.netloc,
        "syslog+tls": remote and not parts.path,
        "https": remote,
        "http": remote and parts.hostname in {"localhost", "127.0.0.1", "::1"},
    }
    if not (plain and written.isascii() and right.get(parts.scheme)):
        # Not repeated: it may have a password.
        raise InvalidValue("this is not a destination of the audit log")
    return written


def _service(written: str) -> str:
    if not _SERVICE.fullmatch(written):
        raise InvalidValue(
            f"{quoted(written)} has other characters than letters, digits, . _ and -"
        )
    return written


class LogLevel(StrEnum):
    """The least severe events that are logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """The formats of the log."""

    AUTO = "auto"
    JSON = "json"
    ECS = "ecs"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class LogSettings:
    """The log on standard error and the audit log. No level shows secrets, forms or queries."""

    GROUP: ClassVar = SettingsGroup.MONITORING

    level: Annotated[
        LogLevel,
        rules.choice(
            LogLevel,
            debug=translatable("Debug"),
            info=translatable("Information"),
            warning=translatable("Warning"),
            error=translatable("Error"),
        ),
        "Least important log lines",
    ] = LogLevel.INFO
    """The lowest level that is logged."""

    keep_events: Annotated[Lifetime, rules.lifetime("1d", "3650d"), "Keep events for"] = days(365)
    """Retention of the audit log in the database."""

    keep_events_of: Annotated[
        tuple[tuple[str, Lifetime], ...],
        rules.texts(
            f'a list such as ["mail=30d"], each an event and {_KEPT.expected}', _kept, _show_kept
        ),
        "Keep some events for",
    ] = ()
    """Shorter retention of some events of the authorization server, such as ["mail=30d",
    "session.renewed=14d"]: a name, or the part before its dot for all such events."""

    format: Annotated[
        LogFormat,
        rules.choice(
            LogFormat,
            auto=translatable("Text in a terminal, JSON elsewhere"),
            json=translatable("JSON"),
            ecs=translatable("JSON for Elastic (ECS)"),
            text=translatable("Text"),
        ),
        "Format of the log",
    ] = LogFormat.AUTO
    """`json`; `ecs`, JSON with the field names of the Elastic Common Schema; `text`; `auto` is
    `text` on a terminal and `json` otherwise."""

    slow_statement: Annotated[
        int, rules.whole(10, 60_000, "milliseconds"), "Log statements that take longer than"
    ] = 500
    """A statement or a commit that takes this long is logged as `database.slow`, once a minute for
    each statement and without its values."""


@dataclass(frozen=True, slots=True)
class AuditSettings:
    """Export of the authorization server's audit log."""

    GROUP: ClassVar = SettingsGroup.MONITORING

    export: Annotated[
        tuple[str, ...],
        rules.texts(
            'a list of "file:path", "syslog+tls://host:port" and "https://host/path"', _destination
        ),
        "Export events to",
    ] = ()
    """Destinations: "file:audit.jsonl", a path from the folder of this file;
    "syslog+tls://host:6514" (RFC 5424 over TLS); "https://host/path" for batches of JSON lines by
    POST. Each has all events at least once, in order."""

    export_token: Annotated[Secret | None, rules.SECRET, "Token for the export of events"] = None
    """The bearer token for https destinations."""

    export_ca_file: Annotated[str, rules.PATH, "Certificates to trust for the export"] = ""
    """PEM file with certificates to trust at destinations, besides those of the system."""


@dataclass(frozen=True, slots=True)
class MetricsSettings:
    """Metrics for Prometheus, of both servers and all their workers, on a listener of their own."""

    GROUP: ClassVar = SettingsGroup.MONITORING

    listen: Annotated[str, rules.OPTIONAL_LISTEN, "Address and port of the metrics"] = ""
    """Where `valetkey serve` answers `GET /metrics`, such as "127.0.0.1:8402". Empty: metrics
    are not served. An address that other machines can reach requires a token."""

    bearer_token: Annotated[Secret | None, rules.SECRET, "Token for the metrics"] = None
    """The bearer token that a scrape must send. /health/ready returns details to requests with this
    token. It is sent without TLS: use a proxy with TLS on networks that you do not control."""

    bearer_token_file: Annotated[str, rules.PATH, "File with the token for the metrics"] = ""
    """File with the token, instead of `bearer_token`."""


@dataclass(frozen=True, slots=True)
class TraceSettings:
    """Traces for OpenTelemetry, of both servers and all their workers; needs `valetkey[otel]`."""

    GROUP: ClassVar = SettingsGroup.MONITORING

    endpoint: Annotated[str, rules.OPTIONAL_SERVER_URL, "Receiver of traces"] = ""
    """The collector, which accepts OTLP over HTTP with Protobuf at /v1/traces, such as
    "http://127.0.0.1:4318". Empty: no traces."""

    sampling: Annotated[float, rules.RATIO, "Share of requests that are traced"] = 0.1
    """The share of traces that are recorded, from 0 to 1. A request that continues a trace follows
    the decision of the caller instead."""

    service_name: Annotated[
        str, rules.text(60, 'a name, such as "valetkey"', _service), "Name of the service in traces"
    ] = "valetkey"
    """`service.name` of all spans, followed by "-authorization" or "-resource"."""

    continue_from: Annotated[
        tuple[Network, ...], rules.NETWORKS, "Networks whose traces are continued"
    ] = ()
    """Addresses and networks whose traces are continued (`traceparent`), besides trusted proxies.
    Name the resource server, "127.0.0.1" on one machine, so that its requests and those it causes
    are one trace. The header of any other client is ignored, because it could force sampling."""

    bearer_token: Annotated[Secret | None, rules.SECRET, "Token for the receiver of traces"] = None
    """The bearer token for the collector; requires https, except on loopback."""

    ca_file: Annotated[str, rules.PATH, "Certificates to trust for traces"] = ""
    """PEM file with certificates to trust at the collector, besides those of the system."""


_LONGEST_SENTENCE = 200
_SCOPE = re.compile(r"([!$-<>-\[\]-~]{1,100})=(.*)")


def _described(written: str) -> tuple[str, str]:
    match = _SCOPE.fullmatch(written)
    if match is None or len(match[2]) > _LONGEST_SENTENCE or not match[2].isprintable():
        raise InvalidValue(
            f"{quoted(written)} is not a scope followed by an equals sign and up to "
            f"{_LONGEST_SENTENCE} characters of description"
        )
    return match[1], match[2].strip()


def _show_described(value: object) -> object:
    return "=".join(cast("tuple[str, str]", value))


@dataclass(frozen=True, slots=True)
class ResourceSettings:
    """The resource server: the API and its data."""

    GROUP: ClassVar = SettingsGroup.NETWORK

    enabled: Annotated[bool, rules.FLAG, "Run the resource server"] = True
    """Whether there is a resource server. Without it `serve` runs the authorization server alone:
    clients get tokens for declared APIs, and for the one at `url` if that is set. The other
    settings of this section have no effect then, except `scopes` and the credential."""

    url: Annotated[str, rules.SERVER_URL, "Public URL of the resource server"] = (
        "http://localhost:8401"
    )
    """The public URL of the API, and the audience of its tokens (RFC 9068). Without a resource
    server, an API of your own for requests without `resource`; if this is not set, their tokens are
    for userinfo alone, with `authorization.url` as audience."""

    scopes: Annotated[
        tuple[tuple[str, str], ...],
        rules.texts(
            'a list such as ["orders:read=see your orders"], each a scope and its description',
            _described,
            _show_described,
        ),
        "Permissions of the API",
    ] = ()
    """Scopes of your own API at `url`, only without a resource server; others have theirs from
    their objects. The text after the equals sign is shown on the consent page. A scope without
    text is for clients' own access: ["orders:read=see your orders", "orders:sync="]."""

    listen: Annotated[str, rules.LISTEN, "Address and port of the resource server"] = (
        "127.0.0.1:8401"
    )
    """The address and port to listen on; see `authorization.listen`."""

    database: Annotated[str, rules.DATABASE, "Database of the resource server"] = field(
        default="sqlite:///valetkey/resource.db", repr=False
    )
    """The database of the users' objects. A relative path starts at the folder of this file. It
    must not be the authorization server's database, which has the keys."""

    tls_certificate: Annotated[str, rules.PATH, "TLS certificate of the resource server"] = ""
    """PEM file with the certificate and its chain, for TLS without a proxy."""

    tls_key: Annotated[str, rules.PATH, "Key of the certificate of the resource server"] = ""
    """PEM file with the certificate's private key, readable by the server's account only."""

    tls_proxy: Annotated[bool, rules.FLAG, "A proxy provides TLS for the resource server"] = False
    """Declares that a proxy with TLS is the only way to reach this server (RFC 6750 section
    5.3)."""

    trusted_proxies: Annotated[
        tuple[Network, ...], rules.NETWORKS, "Trusted proxies of the resource server"
    ] = ()
    """Addresses and networks of proxies whose X-Forwarded-For is trusted. Setting it also declares
    that they use TLS."""

    workers: Annotated[
        int, whole(1, 64, "processes"), "Worker processes of the resource server"
    ] = 1
    """Worker processes. More than the number of cores is not faster."""

    authorization_url: Annotated[
        str, rules.OPTIONAL_SERVER_URL, "Internal URL of the authorization server"
    ] = ""
    """The URL of the authorization server if this file does not configure it. Empty:
    `authorization.url`."""

    credential: Annotated[str, rules.PATH, "File with the credential of the resource server"] = ""
    """File with the secret with which this server authenticates to the authorization server. Empty:
    `resource-server.credential` beside the database, or beside this file with PostgreSQL. It is
    created at the first start if both servers run on one machine."""

    credential_text: Annotated[
        Secret | None, rules.SECRET, "Credential of the resource server from the environment"
    ] = None
    """The credential itself, to pass it through the environment."""

    introspection_cache: Annotated[
        Lifetime, rules.lifetime("1s", "1m"), "Time for which a checked token is remembered"
    ] = seconds(5)
    """How long an introspection response is cached. Revocations arrive within 5 seconds regardless;
    the cache saves a request to the authorization server per API call."""

    revocations_max_age: Annotated[
        int, whole(0, 3_600, "seconds"), "Longest time without news of revocations"
    ] = 0
    """Seconds for which JWTs are accepted while the authorization server does not say what was
    revoked; then requests get 503 with Retry-After. With 5, a revocation takes effect within 5
    seconds even if the authorization server or its database fails at that moment; with less,
    requests are refused at each reconnection. 0: for as long as it takes, so that the API outlives
    an outage of the authorization server."""

    objects: Annotated[str, rules.FOLDER, "Folder of resource objects"] = ""
    """Directory of your own objects, one file each. Both servers read it: the authorization server
    shows their descriptions on the consent page. Python files in it run inside both servers, so
    no other user may be able to write there."""

    cors_origins: Annotated[tuple[str, ...], rules.ORIGINS, "Websites that may call the API"] = ()
    """Origins whose web pages may call this API from a browser, with a token and never with
    cookies. Exact origins only. Empty: none."""

    requests_per_minute: Annotated[
        int,
        whole(0, 1_000_000, "requests a minute"),
        "Requests of one app for one user",
        SettingsGroup.LIMITS,
    ] = 0
    """Requests that one client may send for one user before it gets 429, over all workers of a
    machine; sent in RateLimit headers. 0: no limit."""
