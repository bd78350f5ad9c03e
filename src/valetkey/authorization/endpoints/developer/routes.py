"""The developer portal's routes: which address is whose."""

from dataclasses import replace

from valetkey.authorization.deeds.account.mailroom import Mailroom
from valetkey.authorization.deeds.developer.portal import Portal
from valetkey.authorization.deeds.developer.secrets import AppSecrets
from valetkey.authorization.deeds.developer.team import Teams
from valetkey.authorization.endpoints.developer.apps import AppsEndpoint
from valetkey.authorization.endpoints.developer.delete import DeleteEndpoint
from valetkey.authorization.endpoints.developer.invitations import (
    INVITATIONS,
    InvitationsEndpoint,
)
from valetkey.authorization.endpoints.developer.register import RegisterEndpoint
from valetkey.authorization.endpoints.developer.secrets import SecretsEndpoint
from valetkey.authorization.endpoints.developer.settings import SettingsEndpoint
from valetkey.authorization.endpoints.developer.team import TeamEndpoint
from valetkey.authorization.site.site import DEVELOPER, NEW_APP, Site
from valetkey.web.exchange import Endpoint, Refuse
from valetkey.web.router import Body, Route

APP = f"{DEVELOPER}/apps/{{client_id}}"
"""The address of one app; its other pages are below it."""


def routes(site: Site, portal: Portal, mailroom: Mailroom, refuse: Refuse) -> tuple[Route, ...]:
    """Every page on which people look after their apps."""
    apps, register = AppsEndpoint(site, portal), RegisterEndpoint(site, portal)
    settings = SettingsEndpoint(site, portal)
    secrets = SecretsEndpoint(site, AppSecrets(portal.registrar))

    teams = Teams(site.keyring.fingerprint_key, mailroom, site.issuer)
    team, invitations = TeamEndpoint(site, teams), InvitationsEndpoint(site, teams)
    delete = DeleteEndpoint(site, portal)

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
        form(f"{APP}/team", team.get, team.post),
        form(f"{APP}/team/remove", team.ask, team.remove),
        form(f"{APP}/delete", delete.get, delete.post),
        replace(
            form(f"{INVITATIONS}{{invitation_id}}", invitations.get, invitations.post),
            hides_query=True,
        ),
        form(f"{APP}/legacy", settings.ask_to_drop, settings.drop),
    )
