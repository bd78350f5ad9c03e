"""What operators see of running servers: the log and the metrics."""

# ruff: noqa: RUF009 - `days(1)` is a number: nothing that two settings could share and change

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from valetkey.config import rules
from valetkey.kernel.moment import Lifetime, days
from valetkey.kernel.secret import Secret


class LogLevel(StrEnum):
    """How much is told on standard error."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """How it is told."""

    AUTO = "auto"
    JSON = "json"
    ECS = "ecs"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class LogSettings:
    """The log on standard error and the audit log. No level shows secrets, forms or queries."""

    level: Annotated[LogLevel, rules.choice(LogLevel)] = LogLevel.INFO
    """The lowest level that is logged."""

    keep_events: Annotated[Lifetime, rules.lifetime("1d", "3650d")] = days(365)
    """Retention of the audit log in the database."""

    keep_events_of: Annotated[tuple[tuple[str, Lifetime], ...], rules.LIFETIMES] = ()
    """Shorter retention of some events of the authorization server, such as ["mail=30d",
    "session.renewed=14d"]: a name, or the part before its dot for all such events."""

    format: Annotated[LogFormat, rules.choice(LogFormat)] = LogFormat.AUTO
    """`json`; `ecs`, JSON with the field names of the Elastic Common Schema; `text`; `auto` is
    `text` on a terminal and `json` otherwise."""

    slow_statement: Annotated[int, rules.whole(10, 60_000, "milliseconds")] = 500
    """A statement or a commit that takes this long is logged as `database.slow`, once a minute for
    each statement and without its values."""


@dataclass(frozen=True, slots=True)
class AuditSettings:
    """Export of the authorization server's audit log."""

    export: Annotated[tuple[str, ...], rules.DESTINATIONS] = ()
    """Destinations: "file:audit.jsonl", a path from the folder of this file;
    "syslog+tls://host:6514" (RFC 5424 over TLS); "https://host/path" for batches of JSON lines by
    POST. Each has all events at least once, in order."""

    export_token: Annotated[Secret | None, rules.SECRET] = None
    """The bearer token for https destinations."""

    export_ca_file: Annotated[str, rules.PATH] = ""
    """PEM file with certificates to trust at destinations, besides those of the system."""


@dataclass(frozen=True, slots=True)
class MetricsSettings:
    """Metrics for Prometheus, of both servers and all their workers, on a listener of their own."""

    listen: Annotated[str, rules.OPTIONAL_LISTEN] = ""
    """Where `valetkey serve` answers `GET /metrics`, such as "127.0.0.1:8402". Empty: nowhere. An
    address that other machines can reach requires a token."""

    bearer_token: Annotated[Secret | None, rules.SECRET] = None
    """The bearer token that a scrape must send. /health/ready returns details to requests with this
    token. It is sent without TLS: use a proxy with TLS on networks that you do not control."""

    bearer_token_file: Annotated[str, rules.PATH] = ""
    """File with the token, instead of `bearer_token`."""
