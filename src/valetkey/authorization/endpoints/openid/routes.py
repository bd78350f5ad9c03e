"""The routes of signing out: which address is whose."""

from valetkey.authorization.deeds.logout import SignOut
from valetkey.authorization.endpoints.openid.logout import LOGOUT, LogoutEndpoint
from valetkey.authorization.endpoints.visitor.sign_out import SignOutEndpoint
from valetkey.authorization.endpoints.visitor.site import SIGN_OUT, Site
from valetkey.web.exchange import Refuse
from valetkey.web.router import Body, Route


def routes(site: Site, deed: SignOut, refuse: Refuse) -> tuple[Route, ...]:
    """Every way out, for people and for the apps that send them."""
    sign_out = SignOutEndpoint(site, deed)
    logout = LogoutEndpoint(site, sign_out)
    return (
        Route(SIGN_OUT, {"GET": sign_out.get, "POST": sign_out.post}, refuse, Body.FORM),
        Route(LOGOUT, {"GET": logout.get, "POST": logout.post}, refuse, Body.FORM),
    )
