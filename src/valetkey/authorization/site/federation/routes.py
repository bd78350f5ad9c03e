"""The routes of signing in from another server: which address is whose."""

from valetkey.authorization.site.federation.arrived import ArrivedEndpoint
from valetkey.authorization.site.federation.begin import LeaveEndpoint
from valetkey.authorization.site.federation.callback import ArriveEndpoint
from valetkey.authorization.site.federation.federation import (
    ARRIVED,
    WITH,
    Federation,
)
from valetkey.web.exchange import Refuse
from valetkey.web.router import Body, Route


def routes(federation: Federation, refuse: Refuse) -> tuple[Route, ...]:
    """The way there, the way back, and what is connected; nothing where there is no provider."""
    if not federation.providers.all:
        return ()
    arrived = ArrivedEndpoint(federation)
    leave, arrive = LeaveEndpoint(federation), ArriveEndpoint(federation)
    return (
        Route(f"{WITH}/{{provider}}", {"GET": leave.get}, refuse),
        # The code in its query is nobody's business but ours.
        Route(f"{WITH}/{{provider}}/callback", {"GET": arrive.get}, refuse, hides_query=True),
        Route(
            ARRIVED,
            {"GET": arrived.get, "HEAD": arrived.get, "POST": arrived.post},
            refuse,
            Body.FORM,
        ),
    )
