"""The routes on which developers find out how their app is doing."""

from valetkey.authorization.deeds.clients import Registrar
from valetkey.authorization.endpoints.developer.insight.failures import FailuresEndpoint
from valetkey.authorization.endpoints.developer.insight.health import HealthEndpoint
from valetkey.authorization.endpoints.developer.insight.people import PeopleEndpoint
from valetkey.authorization.endpoints.developer.insight.usage import UsageEndpoint
from valetkey.authorization.endpoints.visitor.site import DEVELOPER, Site
from valetkey.web.exchange import Endpoint, Refuse
from valetkey.web.router import Body, Route

_APP = f"{DEVELOPER}/apps/{{client_id}}"
_FAILURES = f"{_APP}/failures"


def routes(site: Site, registrar: Registrar, refuse: Refuse) -> tuple[Route, ...]:
    """Refusals, usage, people, health, and trying it."""
    failures, health = FailuresEndpoint(site), HealthEndpoint(site, registrar)

    def page(path: str, get: Endpoint) -> Route:
        return Route(path, {"GET": get, "HEAD": get}, refuse)

    def form(path: str, get: Endpoint, post: Endpoint) -> Route:
        return Route(path, {"GET": get, "HEAD": get, "POST": post}, refuse, Body.FORM)

    return (
        page(_FAILURES, failures.get),
        page(f"{_FAILURES}/{{reference}}", failures.one),
        page(f"{DEVELOPER}/failures", failures.find),
        page(f"{DEVELOPER}/failures/{{reference}}", failures.find),
        page(f"{_APP}/usage", UsageEndpoint(site).get),
        page(f"{_APP}/people", PeopleEndpoint(site).get),
        page(f"{_APP}/health", health.get),
        form(f"{_APP}/health/{{mend}}", health.ask, health.mend),
    )
