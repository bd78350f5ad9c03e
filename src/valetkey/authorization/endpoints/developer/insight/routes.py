"""The routes on which developers find out how their app is doing."""

from valetkey.authorization.deeds.clients import Registrar
from valetkey.authorization.deeds.developer.trial import CATCHER
from valetkey.authorization.endpoints.developer.insight.failures import FailuresEndpoint
from valetkey.authorization.endpoints.developer.insight.health import HealthEndpoint
from valetkey.authorization.endpoints.developer.insight.people import PeopleEndpoint
from valetkey.authorization.endpoints.developer.insight.redirect_uri import AddRedirectUri
from valetkey.authorization.endpoints.developer.insight.start import StartEndpoint
from valetkey.authorization.endpoints.developer.insight.trial import TryEndpoint
from valetkey.authorization.endpoints.developer.insight.usage import UsageEndpoint
from valetkey.authorization.site.site import DEVELOPER, Site
from valetkey.kernel.refusal import Refused
from valetkey.web.exchange import Endpoint, Refuse, Request, Response
from valetkey.web.router import Body, Route

_APP = f"{DEVELOPER}/apps/{{client_id}}"
_FAILURES = f"{_APP}/failures"
_TRY = f"{_APP}/try"


def routes(
    site: Site, registrar: Registrar, refuse: Refuse, token: Route, userinfo: Route
) -> tuple[Route, ...]:
    """Refusals, usage, people, health, and trying it by `token` and `userinfo` as they are."""
    failures, health = FailuresEndpoint(site), HealthEndpoint(site, registrar)
    missing = AddRedirectUri(site, registrar)
    trial = TryEndpoint(site, _called(token, "POST"), _called(userinfo, "GET"))

    def page(path: str, get: Endpoint) -> Route:
        return Route(path, {"GET": get, "HEAD": get}, refuse)

    def form(path: str, get: Endpoint, post: Endpoint) -> Route:
        return Route(path, {"GET": get, "HEAD": get, "POST": post}, refuse, Body.FORM)

    def step(path: str, post: Endpoint) -> Route:
        return Route(path, {"POST": post}, refuse, Body.FORM)

    return (
        page(_FAILURES, failures.get),
        page(f"{_FAILURES}/{{reference}}", failures.one),
        form(f"{_FAILURES}/{{reference}}/add", missing.get, missing.post),
        page(f"{DEVELOPER}/failures", failures.find),
        page(f"{DEVELOPER}/failures/{{reference}}", failures.find),
        page(f"{_APP}/usage", UsageEndpoint(site).get),
        page(f"{_APP}/people", PeopleEndpoint(site).get),
        page(f"{_APP}/health", health.get),
        form(f"{_APP}/health/{{mend}}", health.ask, health.mend),
        page(f"{_APP}/start", StartEndpoint(site).get),
        form(_TRY, trial.get, trial.post),
        step(f"{_TRY}/answer", trial.landed),
        step(f"{_TRY}/exchange", trial.exchange),
        step(f"{_TRY}/userinfo", trial.ask_who),
        Route(CATCHER, {"GET": trial.catch}, refuse),
    )


def _called(route: Route, method: str) -> Endpoint:
    """What the route answers to this method, also where it says no."""

    async def answer(request: Request) -> Response:
        try:
            return await route.methods[method](request)
        except Refused as refused:
            return route.refuse(request, refused.refusal)

    return answer
