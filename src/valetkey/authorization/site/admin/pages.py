"""Every page of the console."""

from valetkey.authorization.deeds.account.removal import Removal
from valetkey.authorization.deeds.admin.findings import Inspector
from valetkey.authorization.deeds.admin.people import PeopleDesk
from valetkey.authorization.deeds.admin.roles import Roles
from valetkey.authorization.deeds.foundation import Foundation
from valetkey.authorization.deeds.users import AccountKeeper
from valetkey.authorization.email.links import Links
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
from valetkey.config.sections.portal import Registrants
from valetkey.config.settings import Settings


def admin_pages(site: Site, foundation: Foundation) -> tuple[Page[AdminRequest], ...]:
    """The pages, in the order of the navigation."""
    settings, accounts = foundation.settings, foundation.accounts()
    return (
        *user_pages(site, accounts, foundation.removal, foundation.roles, settings),
        *Clients(site).pages(),
        *ClientPages(site, foundation.registrar("admin")).pages(),
        *SigningKeys(site, foundation.keys, settings.tokens).pages(),
        *Events(site).pages(),
        *Registration(site, settings).pages(),
        *SettingsPages(site, settings).pages(),
        *Mail(site, foundation.outbox).pages(),
        *ApiTokens(site).pages(),
    )


def user_pages(
    site: Site, accounts: AccountKeeper, removal: Removal, roles: Roles, settings: Settings
) -> tuple[Page[AdminRequest], ...]:
    """The overview, and the pages about users and their roles."""
    desk = PeopleDesk(accounts, removal, Links(site.issuer, site.keyring, site.random))
    by_invitation = settings.portal.who is Registrants.INVITED
    return (
        *Overview(site, Inspector(settings, roles)).pages(),
        *Users(site).pages(),
        *UserPages(site, desk, roles, by_invitation).pages(),
        *RoleHolders(site, roles).pages(),
    )
