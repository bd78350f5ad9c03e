"""Webhooks as a feature: what the server takes from them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from valetkey.authorization.actions.admin.search import Match, SearchKind
from valetkey.authorization.feature import CommandGroup, Feature
from valetkey.authorization.operations.operation import Services
from valetkey.authorization.storage.transaction import Hooks, SubjectNames, Transaction
from valetkey.authorization.webhooks.applied import DECLARED
from valetkey.authorization.webhooks.doctor import CHECKS
from valetkey.authorization.webhooks.jobs import GAUGES, jobs, sweep
from valetkey.authorization.webhooks.model import EVENTS
from valetkey.authorization.webhooks.operations import WEBHOOKS
from valetkey.authorization.webhooks.rules import reseal_all
from valetkey.authorization.webhooks.storage import SubscribedEvents, Webhooks, delete_of_client
from valetkey.kernel.text import translatable
from valetkey.kernel.url import masked, path_segment

if TYPE_CHECKING:
    from valetkey.authorization.site.page import AnyPage


def _console(services: Services) -> "tuple[AnyPage, ...]":
    from valetkey.authorization.webhooks.pages import console_pages  # noqa: PLC0415 - see `feature`

    return console_pages(services)


def _of_apps(services: Services, frame: str) -> "tuple[AnyPage, ...]":
    from valetkey.authorization.webhooks.pages import app_pages  # noqa: PLC0415 - see `feature`

    return app_pages(services, frame)


def _find(tx: Transaction, text: str, limit: int) -> Sequence[Match]:
    webhooks = [it for it in Webhooks.of(tx).of_operator() if text.casefold() in it.url.casefold()]
    return [Match(it.url, f"/admin/webhooks/{path_segment(it.id)}") for it in webhooks[:limit]]


def _named(tx: Transaction, webhook_id: str) -> tuple[str, str] | None:
    webhook = Webhooks.of(tx).find(webhook_id)
    if webhook is None:
        return None
    # Those of apps have no page in the console.
    page = "" if webhook.client_id else f"/admin/webhooks/{path_segment(webhook_id)}"
    # Its path may be a secret of the receiver, which only some roles see.
    return (masked(webhook.url), page)


_COMMANDS = CommandGroup(
    "webhook",
    purpose="send chosen events to other servers",
    help="""
    Send chosen events to other servers, with the servers running or stopped.

    Receivers check the signature, as https://www.standardwebhooks.com describes.

    Example: valetkey webhook create https://example.com/hook --event user.disabled
    """,
    guide="how-to/operate/webhooks",
    examples={
        "webhook_id": "wh_aLK10lrmv1k2fsuxsIlNQs",
        "event_id": "ev_AGkvY2wN8jBqcf0a2kQ3Zw",
    },
)

FEATURE = Feature(
    "webhooks",
    events=EVENTS,
    operations=WEBHOOKS,
    commands=(_COMMANDS,),
    hooks=lambda _: Hooks(
        (SubscribedEvents(),),
        (delete_of_client,),
        subjects_named=(SubjectNames("webhook", _named),),
    ),
    console=_console,
    console_after=("/admin/events",),
    app_pages=_of_apps,
    search_kinds=lambda _: (SearchKind(translatable("Webhooks"), _find, ""),),
    jobs=jobs,
    sweeps=(sweep,),
    gauges=(GAUGES,),
    checks=CHECKS,
    declared=(DECLARED,),
    reseals=reseal_all,
)
