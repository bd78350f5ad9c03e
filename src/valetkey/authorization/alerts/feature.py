"""Alerts as a feature: what the server takes from them."""

from valetkey.authorization.alerts.jobs import jobs, sweep
from valetkey.authorization.alerts.model import EVENTS
from valetkey.authorization.feature import Feature

FEATURE = Feature("alerts", events=EVENTS, jobs=jobs, sweeps=(sweep,))
