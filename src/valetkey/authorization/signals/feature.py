"""Shared Signals as a feature: what the server takes from it."""

from typing import TYPE_CHECKING

from valetkey.authorization.feature import CommandGroup, EndpointParts, Feature
from valetkey.authorization.operations.operation import Services
from valetkey.authorization.signals.applied import DECLARED
from valetkey.authorization.signals.doctor import CHECKS
from valetkey.authorization.signals.jobs import GAUGES, jobs, sweep
from valetkey.authorization.signals.model import EVENTS, SCOPES
from valetkey.authorization.signals.operations import STREAMS
from valetkey.authorization.signals.rules.streams import reseal_all
from valetkey.authorization.signals.rules.tokens import SecurityEvents
from valetkey.authorization.signals.storage import delete_of_client, delete_of_user
from valetkey.authorization.storage.transaction import Hooks
from valetkey.web.router import Route

if TYPE_CHECKING:
    from valetkey.authorization.site.page import AnyPage


def _endpoints(parts: EndpointParts) -> tuple[Route, ...]:
    from valetkey.authorization.signals.endpoints import routes  # noqa: PLC0415 - see `feature`

    return routes(parts)


def _console(services: Services) -> "tuple[AnyPage, ...]":
    from valetkey.authorization.signals.pages import (  # noqa: PLC0415 - see `feature`
        SignalStreamPages,
    )

    return SignalStreamPages(services).pages()


_COMMANDS = CommandGroup(
    "signal-stream",
    purpose="send security events about users to other servers",
    help="""
    Send security events about users to other servers, by Shared Signals.

    Receivers create streams themselves, with an access token with the scope ssf.manage.

    Example: valetkey signal-stream failures ss_aLK10lrmv1k2fsuxsIlNQs
    """,
    guide="how-to/operate/shared-signals",
    examples={"stream_id": "ss_aLK10lrmv1k2fsuxsIlNQs"},
)

FEATURE = Feature(
    "signals",
    events=EVENTS,
    operations=STREAMS,
    commands=(_COMMANDS,),
    hooks=lambda _: Hooks((SecurityEvents(),), (delete_of_client,), user_deleted=(delete_of_user,)),
    scopes=SCOPES,
    endpoints=_endpoints,
    console=_console,
    console_after=("/admin/events",),
    checks=CHECKS,
    jobs=jobs,
    sweeps=(sweep,),
    gauges=(GAUGES,),
    declared=(DECLARED,),
    reseals=reseal_all,
)
