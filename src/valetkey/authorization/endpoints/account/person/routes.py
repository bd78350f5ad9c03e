"""The routes of what is about the person as a whole: their data, and the end of the account."""

from valetkey.authorization.deeds.account.removal import Removal
from valetkey.authorization.endpoints.account.addresses import DATA, REMOVAL
from valetkey.authorization.endpoints.account.person.data import DataEndpoint
from valetkey.authorization.endpoints.account.person.removal import RemovalEndpoint
from valetkey.authorization.endpoints.visitor.site import Site
from valetkey.web.exchange import Refuse
from valetkey.web.router import Body, Route


def routes(site: Site, removal: Removal, refuse: Refuse) -> tuple[Route, ...]:
    """Both."""
    return tuple(
        Route(
            path,
            {"GET": endpoint.get, "HEAD": endpoint.get, "POST": endpoint.post},
            refuse,
            Body.FORM,
        )
        for path, endpoint in (
            (DATA, DataEndpoint(site)),
            (REMOVAL, RemovalEndpoint(site, removal)),
        )
    )
