"""Log, metrics and slow statements."""

# ruff: noqa: RUF009 - `days(1)` is a number: nothing that two settings could share and change

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, ClassVar, cast
from urllib.parse import urlsplit

from valetkey.config import rules
from valetkey.config.rules import Group, InvalidValue, Network, quoted, show_lifetime
from valetkey.kernel.moment import Lifetime, days
from valetkey.kernel.secret import Secret
from valetkey.kernel.words import translatable

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

    GROUP: ClassVar = Group.MONITORING

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

    GROUP: ClassVar = Group.MONITORING

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

    GROUP: ClassVar = Group.MONITORING

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

    GROUP: ClassVar = Group.MONITORING

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
