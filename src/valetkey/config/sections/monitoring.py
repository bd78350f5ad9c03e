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
    """What standard error tells. No level shows a secret, a form or a query string."""

    level: Annotated[LogLevel, rules.choice(LogLevel)] = LogLevel.INFO
    """From how important an event is told."""

    keep_events: Annotated[Lifetime, rules.lifetime("1d", "3650d")] = days(365)
    """How long the audit log in the database is kept: who was given what, and when it ended."""

    format: Annotated[LogFormat, rules.choice(LogFormat)] = LogFormat.AUTO
    """`json` for machines, `ecs` the same in the field names of the Elastic Common Schema, `text`
    for people; `auto` is text on a terminal, and else `json`."""


@dataclass(frozen=True, slots=True)
class MetricsSettings:
    """Metrics for Prometheus, of both servers and all their workers, on a listener of their own."""

    listen: Annotated[str, rules.OPTIONAL_LISTEN] = ""
    """Where `valetkey serve` answers `GET /metrics`, such as "127.0.0.1:8402". Empty: nowhere. The
    numbers show how a service is used, so an address that other machines reach needs a token."""

    bearer_token: Annotated[Secret | None, rules.SECRET] = None
    """The bearer token that a scrape has to show; whoever shows it to /health/ready is told what
    failed. It travels in clear: put a proxy that speaks TLS in front where the network is not
    yours."""

    bearer_token_file: Annotated[str, rules.PATH] = ""
    """File with that token, for places where secrets come as files."""
