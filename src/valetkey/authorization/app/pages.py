"""The pages for people: every feature, built with what it uses."""

from dataclasses import dataclass, replace

from valetkey.authorization.actions.account.email_change import EmailChange
from valetkey.authorization.actions.account.identities import Newcomers
from valetkey.authorization.actions.account.password_change import PasswordChange
from valetkey.authorization.actions.account.password_reset import PasswordReset
from valetkey.authorization.actions.account.sign_up import SignUp
from valetkey.authorization.actions.admin.findings import Inspector
from valetkey.authorization.actions.developer.portal import Portal
from valetkey.authorization.actions.developer.secrets import AppSecrets
from valetkey.authorization.actions.developer.team import Teams
from valetkey.authorization.actions.logout import SignOut
from valetkey.authorization.app.foundation import Foundation
from valetkey.authorization.authentication.authenticate import PasswordSignIn
from valetkey.authorization.authentication.factors.proof import Factors
from valetkey.authorization.authentication.federation.registry import Providers
from valetkey.authorization.authentication.federation.trip import Trips
from valetkey.authorization.email.links import (
    EMAIL_CONFIRM,
    EMAIL_UNDO,
    EMAIL_VERIFY,
    FORGOTTEN,
    RESET,
    SIGN_UP,
    SIGN_UP_CONFIRM,
)
from valetkey.authorization.endpoints.authorize.server import Server
from valetkey.authorization.layout.addresses import (
    CONSENT,
    HOME,
    LANGUAGE,
    SECOND_FACTOR,
    SIGN_IN,
    SIGN_OUT,
    SWITCH_ACCOUNT,
)
from valetkey.authorization.layout.language_choice import LanguageEndpoint
from valetkey.authorization.layout.viewer import configuration_of
from valetkey.authorization.model.voucher import VoucherKind
from valetkey.authorization.site.account.activity import Activity
from valetkey.authorization.site.account.apps.app import App
from valetkey.authorization.site.account.apps.apps import Apps as ConnectedApps
from valetkey.authorization.site.account.data import Data
from valetkey.authorization.site.account.email_address.email_address import Email, EmailLinkEndpoint
from valetkey.authorization.site.account.overview import Overview as AccountOverview
from valetkey.authorization.site.account.profile import Profile
from valetkey.authorization.site.account.removal import RemoveAccount
from valetkey.authorization.site.account.security.authenticator import AuthenticatorApp
from valetkey.authorization.site.account.security.confirm import Confirm
from valetkey.authorization.site.account.security.overview import Security
from valetkey.authorization.site.account.security.passkeys import Passkeys
from valetkey.authorization.site.account.security.password import Password
from valetkey.authorization.site.account.security.recovery_codes import RecoveryCodes
from valetkey.authorization.site.account.sessions import Sessions
from valetkey.authorization.site.admin.clients.client import ClientPages
from valetkey.authorization.site.admin.clients.clients import Clients
from valetkey.authorization.site.admin.events import Events
from valetkey.authorization.site.admin.overview import Overview as ConsoleOverview
from valetkey.authorization.site.admin.server.keys import SigningKeys
from valetkey.authorization.site.admin.server.mail import Mail
from valetkey.authorization.site.admin.server.registration import Registration
from valetkey.authorization.site.admin.server.settings import SettingsPages
from valetkey.authorization.site.admin.server.tokens import ApiTokens
from valetkey.authorization.site.admin.users.owner import OwnerLinks
from valetkey.authorization.site.admin.users.roles import RoleHolders
from valetkey.authorization.site.admin.users.user import UserPages
from valetkey.authorization.site.admin.users.users import Users
from valetkey.authorization.site.assets import ASSETS, LOGOS, AssetEndpoint, LogoEndpoint
from valetkey.authorization.site.consent.consent import ConsentEndpoint
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
from valetkey.authorization.site.device.device import DevicePages
from valetkey.authorization.site.errors.explanation import ErrorPages
from valetkey.authorization.site.federation.arrived import ArrivedEndpoint
from valetkey.authorization.site.federation.begin import LeaveEndpoint
from valetkey.authorization.site.federation.callback import ArriveEndpoint
from valetkey.authorization.site.federation.connections import Connections
from valetkey.authorization.site.federation.federation import ARRIVED, WITH, Federation
from valetkey.authorization.site.home import HomeEndpoint
from valetkey.authorization.site.mailbox.mailbox import mailbox_routes
from valetkey.authorization.site.page import AnyPage, PageServer, navigation_of
from valetkey.authorization.site.password_reset.password_reset import RecoveryEndpoint
from valetkey.authorization.site.presentation import Renderer
from valetkey.authorization.site.sign_in.flow import SignInFlow
from valetkey.authorization.site.sign_in.second_factor import SecondFactorEndpoint
from valetkey.authorization.site.sign_in.sign_in import SignInEndpoint
from valetkey.authorization.site.sign_out.logout import LOGOUT, LogoutEndpoint
from valetkey.authorization.site.sign_out.sign_out import SignOutEndpoint
from valetkey.authorization.site.sign_up.sign_up import SignUpEndpoint
from valetkey.config.sections.accounts import SignUp as SignUpMode
from valetkey.kernel.refusal import Refused
from valetkey.web.exchange import Endpoint, Refuse, Request, Response
from valetkey.web.router import Body, Route


@dataclass(frozen=True, slots=True)
class Site:
    """What several areas of pages are built with."""

    foundation: Foundation
    server: Server
    passwords: PasswordSignIn
    sign_out: SignOut
    portal: Portal
    providers: Providers
    refuse: Refuse

    @property
    def renderer(self) -> Renderer:
        """Render pages in the brand of the moment."""
        settings, secure = self.foundation.settings, self.server.cookies.secure
        return Renderer(self.server.brands, settings.portal, secure, configuration_of(settings))

    @property
    def factors(self) -> Factors:
        """Verify second factors."""
        server = self.server
        settings = self.foundation.settings.factors
        return Factors(
            server.issuer,
            lambda: server.brands.current.name,
            server.keyring,
            server.random,
            settings,
        )

    @property
    def flow(self) -> SignInFlow:
        """Begin sessions."""
        return SignInFlow(self.server, self.factors, self.foundation.notices)

    @property
    def password_change(self) -> PasswordChange:
        """Change the password of a user who is signed in."""
        here = replace(self.passwords, door="account")
        server = self.server
        return PasswordChange(here, self.foundation.accounts(), server.sessions, server.random)

    @property
    def email_change(self) -> EmailChange:
        """Change the email address of an account."""
        foundation = self.foundation
        return EmailChange(foundation.store, foundation.links, foundation.outbox)

    @property
    def federation(self) -> Federation:
        """What the pages about upstream providers share."""
        keyring, settings = self.foundation.keyring, self.foundation.settings
        return Federation(
            self.server,
            self.flow,
            self.renderer,
            self.foundation.notices,
            self.providers,
            Trips(keyring.fingerprint_key, keyring.sealer, self.foundation.runtime.random),
            Newcomers(self.foundation.accounts(), settings.brand.name),
            sign_up=settings.accounts.sign_up is SignUpMode.OPEN,
        )


def page_routes(site: Site, token: Route, userinfo: Route) -> tuple[Route, ...]:
    """Return the routes of all pages. "Try it" of the portal calls `token` and `userinfo`."""
    pages = PageServer(site.server, site.renderer, site.refuse)
    account = account_pages(site)
    accounts, passwords = site.foundation.accounts(), replace(site.passwords, door="account")
    device = DevicePages(site.server, site.foundation.settings.device)
    owner = OwnerLinks(site.server, site.renderer, accounts, passwords)
    return (
        *_visitor_routes(site, account),
        *_federation_routes(site),
        *_mailed_routes(site),
        *pages.routes(account),
        *pages.routes(developer_pages(site, token, userinfo)),
        *pages.routes(admin_pages(site.foundation)),
        *pages.routes(device.pages()),
        *device.routes(site.refuse),
        *owner.routes(site.refuse),
    )


def account_pages(site: Site) -> tuple[AnyPage, ...]:
    """Return the pages of the account area, in the order of the navigation."""
    server, factors, notices = site.server, site.factors, site.foundation.notices
    store, scopes, settings = server.store, server.scopes, site.foundation.settings
    change = site.password_change
    federated = bool(site.providers.all)
    return (
        *Profile(store, server, server.brands).pages(),
        *ConnectedApps(store, server.directory, scopes).pages(),
        *App(store, scopes).pages(),
        *Sessions(store, server.sessions, site.sign_out).pages(),
        *Security(store, server, factors, is_federated=bool(settings.federation.providers)).pages(),
        *Password(store, server, change).pages(),
        *Passkeys(store, server, factors, notices).pages(),
        *AuthenticatorApp(store, server, factors, notices).pages(),
        *RecoveryCodes(store, server, factors).pages(),
        *Confirm(store, server, factors, notices, change.passwords).pages(),
        *Activity(store).pages(),
        *Data(store, server, server.brands, server.policy.audience).pages(),
        *RemoveAccount(store, server, site.foundation.removal).pages(),
        *Email(site.email_change).pages(),
        *(Connections(site.federation).pages() if federated else ()),
    )


def developer_pages(site: Site, token: Route, userinfo: Route) -> tuple[AnyPage, ...]:
    """Return the pages of the portal, in the order of the navigation."""
    server, portal = site.server, site.portal
    store, keyring, random = server.store, server.keyring, server.random
    scopes, issuer, audience = server.scopes, server.issuer, server.policy.audience
    teams = Teams(keyring.fingerprint_key, site.foundation.outbox, issuer)
    calls = _answer(token, "POST"), _answer(userinfo, "GET")
    return (
        *Apps(store, portal).pages(),
        *RegisterApp(store, keyring, random, scopes, issuer, portal).pages(),
        *Invitation(store, teams).pages(),
        *Overview(store, scopes, issuer).pages(),
        *Settings(store, scopes, portal).pages(),
        *Secrets(store, random, AppSecrets(portal.registrar)).pages(),
        *Start(issuer, audience).pages(),
        *TryIt(keyring, random, scopes, issuer, *calls).pages(),
        *Failures(store, portal.registrar).pages(),
        *Usage(store).pages(),
        *People(store, keyring, random).pages(),
        *Health(store, portal.registrar).pages(),
        *Team(store, random, teams).pages(),
        *DeleteApp(store, portal).pages(),
    )


def admin_pages(foundation: Foundation) -> tuple[AnyPage, ...]:
    """Return the pages of the console, in the order of the navigation."""
    services, store, settings = foundation.services, foundation.store, foundation.settings
    return (
        *ConsoleOverview(store, Inspector(settings, services.roles)).pages(),
        *Users(store).pages(),
        *UserPages(services).pages(),
        *RoleHolders(store, services.roles).pages(),
        *Clients(store).pages(),
        *ClientPages(services).pages(),
        *SigningKeys(services).pages(),
        *Events(store).pages(),
        *Registration(services).pages(),
        *SettingsPages(store, settings).pages(),
        *Mail(store, services.outbox).pages(),
        *ApiTokens(services).pages(),
    )


def _visitor_routes(site: Site, account: tuple[AnyPage, ...]) -> tuple[Route, ...]:
    server, renderer, refuse = site.server, site.renderer, site.refuse
    mode = site.foundation.settings.accounts.sign_up
    consent = ConsentEndpoint(server, renderer)
    sign_in = SignInEndpoint(
        site.flow, renderer, site.passwords, mode, site.federation.sign_in_buttons
    )
    second = SecondFactorEndpoint(site.flow, renderer)
    sign_out = SignOutEndpoint(server, renderer, site.sign_out)
    overview = AccountOverview(server.store, server, renderer, navigation_of(account))
    home = HomeEndpoint(server, renderer, mode, overview)
    logout = LogoutEndpoint(server, sign_out)
    errors = ErrorPages(server.brands, server.issuer, renderer.configuration)
    return (
        _form(SIGN_IN, refuse, GET=sign_in.get, POST=sign_in.post),
        _form(SECOND_FACTOR, refuse, GET=second.get, POST=second.post),
        _form(CONSENT, refuse, GET=consent.get, POST=consent.post),
        _form(SWITCH_ACCOUNT, refuse, POST=consent.switch_account),
        _form(SIGN_OUT, refuse, GET=sign_out.get, POST=sign_out.post),
        _form(LOGOUT, refuse, GET=logout.get, POST=logout.post),
        _form(LANGUAGE, refuse, POST=LanguageEndpoint(server.brands, server.issuer).post),
        _page(HOME, home.get, refuse),
        _page("/account", home.lead, refuse),
        _page("/errors/", errors.index, refuse),
        _page("/errors/{code}", errors.explanation, refuse),
        _page("/notices/query-string", errors.query_string, refuse),
        # The page that says that the host is wrong has to look like a page.
        _page(ASSETS, AssetEndpoint(server.brands, server.store).get, refuse, any_host=True),
        _page(LOGOS, LogoEndpoint(server.store).get, refuse),
    )


def _federation_routes(site: Site) -> tuple[Route, ...]:
    if not site.providers.all:
        return ()
    federation, refuse = site.federation, site.refuse
    arrived = ArrivedEndpoint(federation)
    leave, arrive = LeaveEndpoint(federation), ArriveEndpoint(federation)
    return (
        Route(f"{WITH}/{{provider}}", {"GET": leave.get}, refuse),
        # The code in its query is nobody's business but ours.
        Route(f"{WITH}/{{provider}}/callback", {"GET": arrive.get}, refuse, hides_query=True),
        _form(ARRIVED, refuse, GET=arrived.get, HEAD=arrived.get, POST=arrived.post),
    )


def _mailed_routes(site: Site) -> tuple[Route, ...]:
    foundation, server, renderer, refuse = site.foundation, site.server, site.renderer, site.refuse
    links, outbox, accounts = foundation.links, foundation.outbox, foundation.accounts()
    settings = foundation.settings
    here = replace(site.passwords, door="mailed")
    mode, name = settings.accounts.sign_up, settings.brand.name
    begin = SignUp(mode, links, outbox, accounts, here, name)
    sign_up = SignUpEndpoint(site.flow, renderer, begin, foundation.people_invitations)
    reset = PasswordReset(links, outbox, accounts, here)
    recovery = RecoveryEndpoint(server, renderer, reset)

    def form(path: str, get: Endpoint, post: Endpoint) -> Route:
        return _form(path, refuse, GET=get, HEAD=get, POST=post)

    def link(path: str, kind: VoucherKind) -> Route:
        endpoint = EmailLinkEndpoint(server, renderer, site.email_change, kind)
        return form(path, endpoint.look, endpoint.act)

    return (
        form(SIGN_UP, sign_up.get, sign_up.post),
        form(SIGN_UP_CONFIRM, sign_up.look, sign_up.finish),
        form(FORGOTTEN, recovery.get, recovery.post),
        form(RESET, recovery.look, recovery.choose),
        link(EMAIL_CONFIRM, VoucherKind.EMAIL_CHANGE),
        link(EMAIL_VERIFY, VoucherKind.EMAIL_VERIFY),
        link(EMAIL_UNDO, VoucherKind.EMAIL_UNDO),
        *mailbox_routes(server.store, renderer, outbox, refuse),
    )


def _form(path: str, refuse: Refuse, **methods: Endpoint) -> Route:
    return Route(path, methods, refuse, Body.FORM)


def _page(path: str, endpoint: Endpoint, refuse: Refuse, *, any_host: bool = False) -> Route:
    return Route(path, {"GET": endpoint, "HEAD": endpoint}, refuse, any_host=any_host)


def _answer(route: Route, method: str) -> Endpoint:
    """Return the response of a route to this method, also when it refuses."""

    async def answer(request: Request) -> Response:
        try:
            return await route.methods[method](request)
        except Refused as refused:
            return route.refuse(request, refused.refusal)

    return answer
