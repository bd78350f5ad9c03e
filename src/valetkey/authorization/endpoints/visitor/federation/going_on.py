"""Whoever has just signed in goes on to where they were going: to an app, or to a page of ours."""

from dataclasses import replace

from valetkey.authorization.endpoints.authorize.pending import decides_again, open_interaction
from valetkey.authorization.endpoints.visitor.site import HOME, Site
from valetkey.web.exchange import Pairs, Request, Response


def goes_on(
    site: Site, request: Request, session_id: str, cookies: Pairs, *, sealed: str, to: str
) -> Response:
    """The way on. Refused as a page of that request would be, where it is over meanwhile."""
    if not sealed:
        return site.goes_to(to or HOME, *cookies)
    interaction = open_interaction(site, request, sealed)
    signed_in = replace(interaction, signed_in=session_id, decided="", allowed=())
    return site.goes_to(decides_again(site, signed_in), *cookies)
