"""The account area's routes: which address is whose."""

from dataclasses import replace

from valetkey.authorization.deeds.account.password_change import PasswordChange
from valetkey.authorization.deeds.logout import SignOut
from valetkey.authorization.endpoints.account.activity import ActivityEndpoint
from valetkey.authorization.endpoints.account.addresses import APP, PROFILE
from valetkey.authorization.endpoints.account.app import AppEndpoint
from valetkey.authorization.endpoints.account.apps import AppsEndpoint
from valetkey.authorization.endpoints.account.person.profile import ProfileEndpoint
from valetkey.authorization.endpoints.account.security.routes import routes as security_routes
from valetkey.authorization.endpoints.account.sessions import SessionsEndpoint
from valetkey.authorization.endpoints.account.step_up import CONFIRM, ConfirmEndpoint
from valetkey.authorization.endpoints.visitor.site import (
    ACTIVITY,
    APPS,
    END_APP,
    END_APPS,
    SESSIONS,
    Site,
)
from valetkey.web.exchange import Endpoint, Refuse
from valetkey.web.router import Body, Route


def routes(
    site: Site, sign_out: SignOut, password: PasswordChange, refuse: Refuse
) -> tuple[Route, ...]:
    """Every page on which people look after their account."""
    apps, sessions = AppsEndpoint(site), SessionsEndpoint(site, sign_out)
    app = AppEndpoint(site)
    activity, profile = ActivityEndpoint(site), ProfileEndpoint(site)
    confirm = ConfirmEndpoint(site, replace(password.passwords, door="confirm"))

    def form(path: str, get: Endpoint, post: Endpoint) -> Route:
        return Route(path, {"GET": get, "HEAD": get, "POST": post}, refuse, Body.FORM)

    return (
        form(PROFILE, profile.get, profile.post),
        Route(APPS, {"GET": apps.get, "HEAD": apps.get}, refuse),
        Route(APP, {"GET": app.get, "HEAD": app.get}, refuse),
        form(END_APP, apps.ask, apps.end),
        form(END_APPS, apps.ask_all, apps.end_all),
        form(SESSIONS, sessions.get, sessions.post),
        *security_routes(site, password, refuse),
        form(CONFIRM, confirm.get, confirm.post),
        Route(ACTIVITY, {"GET": activity.get, "HEAD": activity.get}, refuse),
    )
