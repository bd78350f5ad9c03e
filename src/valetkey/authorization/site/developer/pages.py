"""Every page of the developer portal."""

from valetkey.authorization.actions.developer.portal import Portal
from valetkey.authorization.actions.developer.secrets import AppSecrets
from valetkey.authorization.actions.developer.team import Teams
from valetkey.authorization.email.outbox import MailOutbox
from valetkey.authorization.site.developer.apps import Apps
from valetkey.authorization.site.developer.delete import DeleteApp
from valetkey.authorization.site.developer.invitation import Invitation
from valetkey.authorization.site.developer.monitoring.failures import Failures
from valetkey.authorization.site.developer.monitoring.health import Health
from valetkey.authorization.site.developer.monitoring.people import People
from valetkey.authorization.site.developer.monitoring.usage import Usage
from valetkey.authorization.site.developer.overview import Overview
from valetkey.authorization.site.developer.secrets import Secrets
from valetkey.authorization.site.developer.settings.register import RegisterApp
from valetkey.authorization.site.developer.settings.settings import Settings
from valetkey.authorization.site.developer.team import Team
from valetkey.authorization.site.developer.try_it.start import Start
from valetkey.authorization.site.developer.try_it.try_it import TryIt
from valetkey.authorization.site.page import AnyPage
from valetkey.authorization.site.site import Site
from valetkey.kernel.refusal import Refused
from valetkey.web.exchange import Endpoint, Request, Response
from valetkey.web.router import Route


def developer_pages(
    site: Site, portal: Portal, outbox: MailOutbox, token: Route, userinfo: Route
) -> tuple[AnyPage, ...]:
    """The pages, in the order of the navigation. "Try it" calls `token` and `userinfo`."""
    teams = Teams(site.keyring.fingerprint_key, outbox, site.issuer)
    return (
        *Apps(site, portal).pages(),
        *RegisterApp(site, portal).pages(),
        *Invitation(site, teams).pages(),
        *Overview(site).pages(),
        *Settings(site, portal).pages(),
        *Secrets(site, AppSecrets(portal.registrar)).pages(),
        *Start(site).pages(),
        *TryIt(site, _answer(token, "POST"), _answer(userinfo, "GET")).pages(),
        *Failures(site, portal.registrar).pages(),
        *Usage(site).pages(),
        *People(site).pages(),
        *Health(site, portal.registrar).pages(),
        *Team(site, teams).pages(),
        *DeleteApp(site, portal).pages(),
    )


def _answer(route: Route, method: str) -> Endpoint:
    """The response of a route to this method, also when it refuses."""

    async def answer(request: Request) -> Response:
        try:
            return await route.methods[method](request)
        except Refused as refused:
            return route.refuse(request, refused.refusal)

    return answer
