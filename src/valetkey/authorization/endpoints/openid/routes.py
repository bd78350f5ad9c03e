"""Routes of session management and third-party initiated sign-in."""

from valetkey.authorization.endpoints.authorize.server import Server
from valetkey.authorization.endpoints.openid.check_session import (
    CHECK_SESSION,
    CheckSessionEndpoint,
    check_session_frame,
)
from valetkey.authorization.endpoints.openid.start import StartEndpoint
from valetkey.authorization.layout.addresses import START
from valetkey.web.exchange import Endpoint, Refuse
from valetkey.web.router import Route


def routes(server: Server, refuse: Refuse) -> tuple[Route, ...]:
    """Return the routes of session management and of sign-in initiated here."""
    frame = CheckSessionEndpoint(check_session_frame(server.cookies.state_name))
    start = StartEndpoint(server)

    def page(path: str, endpoint: Endpoint) -> Route:
        return Route(path, {"GET": endpoint, "HEAD": endpoint}, refuse)

    return (
        page(CHECK_SESSION, frame.get),
        page(START, start.get),
    )
