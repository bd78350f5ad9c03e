"""Pages of the developer portal."""

from collections.abc import Callable

from valetkey.authorization.actions.teams import Teams
from valetkey.authorization.feature import Site
from valetkey.authorization.layout.viewer import Menu
from valetkey.authorization.portal.pages.apps import (
    Apps,
    DeleteApp,
    Invitation,
    Overview,
    Search,
    Secrets,
)
from valetkey.authorization.portal.pages.monitoring import AppUsers, Health, Usage
from valetkey.authorization.portal.pages.requests import Failures, Requests
from valetkey.authorization.portal.pages.settings import RegisterApp, Settings, Team
from valetkey.authorization.portal.pages.try_it import QuickstartPages, TryIt, UseToken
from valetkey.authorization.portal.rules.apps import AppSecrets, Portal
from valetkey.authorization.portal.rules.quickstart import Quickstarts
from valetkey.authorization.site.page import AnyPage


def portal_pages(site: Site, of_apps: Callable[[str], tuple[AnyPage, ...]]) -> tuple[AnyPage, ...]:
    """Return the pages of the portal, in the order of the navigation.

    `of_apps` makes those of other features about an app, in this template.
    """
    services, server, portal = site.services, site.server, Portal.from_services(site.services)
    store, keyring, random = server.store, server.keyring, server.random
    scopes, issuer = server.scopes, server.issuer
    teams = Teams(keyring.fingerprint_key, services.outbox, issuer)
    api, offered = services.settings.api_url, services.keys.algorithms
    quickstarts = Quickstarts(issuer, api, offered, random)
    has_reference = bool(api) and services.settings.resource.enabled
    reference = f"{api.rstrip('/')}/v2/" if has_reference else ""
    audience, sealer = server.policy.audience, keyring.sealer
    pages: tuple[AnyPage, ...] = (
        *Apps(store, portal).pages(),
        *RegisterApp(store, keyring, random, scopes, issuer, portal).pages(),
        *Invitation(store, teams).pages(),
        *Overview(store, scopes, issuer).pages(),
        *Settings(store, scopes, portal).pages(),
        *Secrets(store, random, AppSecrets(portal.registrar)).pages(),
        *QuickstartPages(quickstarts, reference).pages(),
        *TryIt(store, keyring, random, audience, scopes, issuer, site.token, has_reference).pages(),
        *UseToken(sealer, issuer, reference, scopes, site.userinfo).pages(),
        *Requests(store, portal.settings.sample_requests).pages(),
        *Failures(store, portal.registrar).pages(),
        *Usage(store).pages(),
        *AppUsers(store, keyring, random).pages(),
        *Health(store, portal.registrar).pages(),
        *of_apps("portal/pages/frame.html"),
        *Team(store, random, teams).pages(),
        *DeleteApp(store, portal).pages(),
    )
    return (*pages, *Search(store, Menu(pages).navigation().menu).pages())
