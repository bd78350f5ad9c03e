"""The developer portal's routes: which address is whose."""

from valetkey.authorization.deeds.developer.portal import Portal
from valetkey.authorization.deeds.developer.secrets import AppSecrets
from valetkey.authorization.endpoints.developer.apps import AppsEndpoint
from valetkey.authorization.endpoints.developer.register import RegisterEndpoint
from valetkey.authorization.endpoints.developer.secrets import SecretsEndpoint
from valetkey.authorization.endpoints.developer.settings import SettingsEndpoint
from valetkey.authorization.endpoints.visitor.site import DEVELOPER, NEW_APP, Site
from valetkey.web.exchange import Endpoint, Refuse
from valetkey.web.router import Body, Route

APP = f"{DEVELOPER}/apps/{{client_id}}"
"""The address of one app; its other pages are below it."""


def routes(site: Site, portal: Portal, refuse: Refuse) -> tuple[Route, ...]:
    """Every page on which people look after their apps."""
    apps, register = AppsEndpoint(site, portal), RegisterEndpoint(site, portal)
    settings = SettingsEndpoint(site, portal)
    secrets = SecretsEndpoint(site, AppSecrets(portal.registrar))

    def page(path: str, get: Endpoint) -> Route:
        return Route(path, {"GET": get, "HEAD": get}, refuse)

    def form(path: str, get: Endpoint, post: Endpoint) -> Route:
        return Route(path, {"GET": get, "HEAD": get, "POST": post}, refuse, Body.FORM)

    return (
        page(DEVELOPER, apps.get),
        form(NEW_APP, register.get, register.post),
        page(APP, apps.overview),
        form(f"{APP}/settings", settings.get, settings.post),
        form(f"{APP}/secrets", secrets.get, secrets.post),
        form(f"{APP}/secrets/end", secrets.ask, secrets.end),
        form(f"{APP}/legacy", settings.ask_to_drop, settings.drop),
    )
