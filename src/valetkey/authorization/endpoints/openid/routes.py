"""Routes of the session and logout endpoints."""

from valetkey.authorization.deeds.logout import SignOut
from valetkey.authorization.endpoints.openid.check_session import (
    CHECK_SESSION,
    CheckSessionEndpoint,
    check_session_frame,
)
from valetkey.authorization.endpoints.openid.logout import LOGOUT, LogoutEndpoint
from valetkey.authorization.endpoints.openid.start import StartEndpoint
from valetkey.authorization.site.sign_out.sign_out import SignOutEndpoint
from valetkey.authorization.site.site import SIGN_OUT, START, Site
from valetkey.web.exchange import Endpoint, Refuse
from valetkey.web.router import Body, Route


def routes(site: Site, deed: SignOut, refuse: Refuse) -> tuple[Route, ...]:
    """Return the routes between this server and apps, except the authorization endpoint."""
    sign_out = SignOutEndpoint(site, deed)
    logout = LogoutEndpoint(site, sign_out)
    frame = CheckSessionEndpoint(check_session_frame(site.cookies.state_name))
    start = StartEndpoint(site)

    def page(path: str, endpoint: Endpoint) -> Route:
        return Route(path, {"GET": endpoint, "HEAD": endpoint}, refuse)

    return (
        Route(SIGN_OUT, {"GET": sign_out.get, "POST": sign_out.post}, refuse, Body.FORM),
        Route(LOGOUT, {"GET": logout.get, "POST": logout.post}, refuse, Body.FORM),
        page(CHECK_SESSION, frame.get),
        page(START, start.get),
    )
