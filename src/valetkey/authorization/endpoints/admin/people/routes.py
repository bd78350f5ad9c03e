"""The routes of administration that are about people."""

from valetkey.authorization.deeds.account.mailed.links import Links
from valetkey.authorization.deeds.account.removal import Removal
from valetkey.authorization.deeds.admin.findings import Inspector
from valetkey.authorization.deeds.admin.people import PeopleDesk
from valetkey.authorization.deeds.admin.roles import Roles
from valetkey.authorization.deeds.users import AccountKeeper
from valetkey.authorization.endpoints.admin.people.addresses import (
    ACT,
    OWNER,
    OWNER_ACCOUNT,
    ROLES,
    USER,
    USERS,
)
from valetkey.authorization.endpoints.admin.people.overview import OverviewEndpoint
from valetkey.authorization.endpoints.admin.people.owner import OwnerEndpoint
from valetkey.authorization.endpoints.admin.people.roles import RolesEndpoint
from valetkey.authorization.endpoints.admin.people.user import UserEndpoint
from valetkey.authorization.endpoints.admin.people.users import UsersEndpoint
from valetkey.authorization.endpoints.admin.visit import ADMIN
from valetkey.authorization.sign_in.authenticate import PasswordSignIn
from valetkey.authorization.site.site import Site
from valetkey.config.sections.portal import Registrants
from valetkey.web.exchange import Endpoint, Refuse
from valetkey.web.router import Body, Route


def routes(
    site: Site,
    accounts: AccountKeeper,
    removal: Removal,
    roles: Roles,
    inspector: Inspector,
    passwords: PasswordSignIn,
    refuse: Refuse,
) -> tuple[Route, ...]:
    """Every page on which people with a role look after people."""
    overview, users, given = (
        OverviewEndpoint(site, inspector),
        UsersEndpoint(site),
        RolesEndpoint(site, roles),
    )
    user = UserEndpoint(
        site,
        PeopleDesk(accounts, removal, Links(site.issuer, site.keyring, site.random)),
        roles,
        by_invitation=inspector.settings.portal.who is Registrants.INVITED,
    )
    owner = OwnerEndpoint(site, accounts, passwords)

    def page(path: str, get: Endpoint) -> Route:
        return Route(path, {"GET": get, "HEAD": get}, refuse)

    def form(path: str, get: Endpoint, post: Endpoint, *, hides_query: bool = False) -> Route:
        methods = {"GET": get, "HEAD": get, "POST": post}
        return Route(path, methods, refuse, Body.FORM, hides_query)

    return (
        page(ADMIN, overview.get),
        page(USERS, users.get),
        page(USER, user.get),
        form(ACT, user.ask, user.act),
        form(ROLES, given.get, given.post),
        form(OWNER, owner.get, owner.become, hides_query=True),
        Route(OWNER_ACCOUNT, {"POST": owner.make}, refuse, Body.FORM),
    )
