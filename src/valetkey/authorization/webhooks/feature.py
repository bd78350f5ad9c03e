"""Webhooks as a feature: what the server takes from this room."""

from valetkey.authorization.feature import Feature
from valetkey.authorization.storage.transaction import Hooks
from valetkey.authorization.webhooks.applied import DECLARED
from valetkey.authorization.webhooks.doctor import CHECKS
from valetkey.authorization.webhooks.jobs import GAUGES, jobs, sweep
from valetkey.authorization.webhooks.model import EVENTS
from valetkey.authorization.webhooks.operations import WEBHOOKS
from valetkey.authorization.webhooks.pages import console_pages, portal_pages
from valetkey.authorization.webhooks.rules import reseal_all
from valetkey.authorization.webhooks.storage import SubscribedEvents, delete_of_client

FEATURE = Feature(
    "webhooks",
    needs=("users", "clients", "audit", "mail", "portal"),
    events=EVENTS,
    operations=WEBHOOKS,
    hooks=lambda: Hooks((SubscribedEvents(),), (delete_of_client,)),
    console=console_pages,
    console_after="/admin/events",
    portal=portal_pages,
    jobs=jobs,
    sweeps=(sweep,),
    gauges=(GAUGES,),
    checks=CHECKS,
    declared=(DECLARED,),
    reseals=reseal_all,
)
