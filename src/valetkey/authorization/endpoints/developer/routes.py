"""The developer portal's routes: which address is whose."""

from valetkey.authorization.endpoints.developer.apps import AppsEndpoint
from valetkey.authorization.endpoints.visitor.site import DEVELOPER, Site
from valetkey.web.exchange import Endpoint, Refuse
from valetkey.web.router import Route

APP = f"{DEVELOPER}/apps/{{client_id}}"
"""The address of one app; its other pages are below it."""


def routes(site: Site, refuse: Refuse) -> tuple[Route, ...]:
    """Every page on which people look after their apps."""
    apps = AppsEndpoint(site)

    def page(path: str, get: Endpoint) -> Route:
        return Route(path, {"GET": get, "HEAD": get}, refuse)

    return (
        page(DEVELOPER, apps.get),
        page(APP, apps.overview),
    )
