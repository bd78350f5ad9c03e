"""The routes of connected apps and of activity."""

from valetkey.authorization.endpoints.account.activity import ActivityEndpoint
from valetkey.authorization.endpoints.account.addresses import APP
from valetkey.authorization.endpoints.account.app import AppEndpoint
from valetkey.authorization.endpoints.account.apps import AppsEndpoint
from valetkey.authorization.site.site import ACTIVITY, APPS, END_APP, END_APPS, Site
from valetkey.web.exchange import Endpoint, Refuse
from valetkey.web.router import Body, Route


def routes(site: Site, refuse: Refuse) -> tuple[Route, ...]:
    """Every page of the account area that is not under `site` yet."""
    apps, app, activity = AppsEndpoint(site), AppEndpoint(site), ActivityEndpoint(site)

    def form(path: str, get: Endpoint, post: Endpoint) -> Route:
        return Route(path, {"GET": get, "HEAD": get, "POST": post}, refuse, Body.FORM)

    return (
        Route(APPS, {"GET": apps.get, "HEAD": apps.get}, refuse),
        Route(APP, {"GET": app.get, "HEAD": app.get}, refuse),
        form(END_APP, apps.ask, apps.end),
        form(END_APPS, apps.ask_all, apps.end_all),
        Route(ACTIVITY, {"GET": activity.get, "HEAD": activity.get}, refuse),
    )
