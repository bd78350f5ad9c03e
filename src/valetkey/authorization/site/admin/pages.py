"""Every page of the console."""

from valetkey.authorization.actions.admin.findings import Inspector
from valetkey.authorization.operations.operation import Services
from valetkey.authorization.site.admin.administrator import AdminRequest
from valetkey.authorization.site.admin.clients.client import ClientPages
from valetkey.authorization.site.admin.clients.clients import Clients
from valetkey.authorization.site.admin.events import Events
from valetkey.authorization.site.admin.overview import Overview
from valetkey.authorization.site.admin.server.keys import SigningKeys
from valetkey.authorization.site.admin.server.mail import Mail
from valetkey.authorization.site.admin.server.registration import Registration
from valetkey.authorization.site.admin.server.settings import SettingsPages
from valetkey.authorization.site.admin.server.tokens import ApiTokens
from valetkey.authorization.site.admin.users.roles import RoleHolders
from valetkey.authorization.site.admin.users.user import UserPages
from valetkey.authorization.site.admin.users.users import Users
from valetkey.authorization.site.page import Page
from valetkey.authorization.site.site import Site


def admin_pages(site: Site, services: Services) -> tuple[Page[AdminRequest], ...]:
    """The pages, in the order of the navigation."""
    settings, roles = services.settings, services.roles
    return (
        *Overview(site, Inspector(settings, roles)).pages(),
        *Users(site).pages(),
        *UserPages(site, services).pages(),
        *RoleHolders(site, roles).pages(),
        *Clients(site).pages(),
        *ClientPages(site, services).pages(),
        *SigningKeys(site, services).pages(),
        *Events(site).pages(),
        *Registration(site, settings).pages(),
        *SettingsPages(site, settings).pages(),
        *Mail(site, services.outbox).pages(),
        *ApiTokens(site).pages(),
    )
