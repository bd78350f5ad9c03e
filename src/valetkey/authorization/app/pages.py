"""The pages of every feature, built with their dependencies."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from valetkey.authorization.actions.account.email_change import EmailAddresses
from valetkey.authorization.actions.account.passwords import PasswordChange, PasswordReset
from valetkey.authorization.actions.account.sign_up import SignUp
from valetkey.authorization.actions.inspection.inspector import Inspector
from valetkey.authorization.actions.logout import SignOut
from valetkey.authorization.app.foundation import Foundation
from valetkey.authorization.authentication.factors import Factors
from valetkey.authorization.authentication.password import PasswordSignIn
from valetkey.authorization.endpoints.authorize.pending import Server
from valetkey.authorization.feature import Parts, Site
from valetkey.authorization.features import FEATURES, KINDS, OPERATIONS
from valetkey.authorization.layout.addresses import (
    LANGUAGE,
)
from valetkey.authorization.layout.assets import CurrentBrand
from valetkey.authorization.layout.viewer import LanguageEndpoint, Menu, configuration_of
from valetkey.authorization.model.grant import VoucherKind
from valetkey.authorization.site.account.activity import AccountActivity, ListedEvents
from valetkey.authorization.site.account.apps import ConnectedAppListPages, ConnectedAppPages
from valetkey.authorization.site.account.email_address import EmailAddressPages, EmailLink
from valetkey.authorization.site.account.overview import AccountOverview
from valetkey.authorization.site.account.profile import ProfilePages, ProfilePicture
from valetkey.authorization.site.account.removal import Data, RemoveAccount
from valetkey.authorization.site.account.security.authenticator import (
    AuthenticatorApp,
    RecoveryCodePages,
)
from valetkey.authorization.site.account.security.confirm import Confirm, RequiredFactor
from valetkey.authorization.site.account.security.overview import Password, Security
from valetkey.authorization.site.account.security.passkeys import PasskeyPages
from valetkey.authorization.site.account.sessions import SessionPages
from valetkey.authorization.site.admin.api_roles import ApiRoleForms
from valetkey.authorization.site.admin.clients.client import ClientPages
from valetkey.authorization.site.admin.clients.clients import (
    SELECTED_APPS,
    ClientListPages,
)
from valetkey.authorization.site.admin.clients.edit import ClientForms
from valetkey.authorization.site.admin.clients.registration import NewIds
from valetkey.authorization.site.admin.confirm import Buttons
from valetkey.authorization.site.admin.events.events import EventPages
from valetkey.authorization.site.admin.groups.group import GroupPages
from valetkey.authorization.site.admin.groups.groups import (
    SELECTED_GROUPS,
    GroupForm,
    GroupListPages,
)
from valetkey.authorization.site.admin.overview import ConsoleOverview
from valetkey.authorization.site.admin.saved_filters import SavedFilterForms
from valetkey.authorization.site.admin.selected import SelectedPages
from valetkey.authorization.site.admin.server.brand import BrandPages
from valetkey.authorization.site.admin.server.keys import SigningKeyPages
from valetkey.authorization.site.admin.server.registration import Registration
from valetkey.authorization.site.admin.server.setting_form import SettingForms
from valetkey.authorization.site.admin.server.settings import Mail, SettingsPages
from valetkey.authorization.site.admin.server.tokens import ApiTokenPages
from valetkey.authorization.site.admin.users.forms import UserForms
from valetkey.authorization.site.admin.users.owner import OwnerLinks
from valetkey.authorization.site.admin.users.roles import RoleHolderPages
from valetkey.authorization.site.admin.users.user import UserPages
from valetkey.authorization.site.admin.users.users import SELECTED_USERS, UserListPages
from valetkey.authorization.site.assets import (
    ASSETS,
    LOGOS,
    UPLOADED,
    AssetEndpoint,
    LogoEndpoint,
    PictureEndpoint,
)
from valetkey.authorization.site.consent import ConsentPages
from valetkey.authorization.site.documentation import FILES as DOCS_FILES
from valetkey.authorization.site.documentation import START as DOCS
from valetkey.authorization.site.documentation import documentation
from valetkey.authorization.site.errors.refuse import ErrorPages
from valetkey.authorization.site.home import Home
from valetkey.authorization.site.mailbox import Mailbox
from valetkey.authorization.site.page import AnyPage, PageServer
from valetkey.authorization.site.password_reset import ResetPassword
from valetkey.authorization.site.presentation import Renderer
from valetkey.authorization.site.search import ConsoleSearch
from valetkey.authorization.site.sign_in.flow import SignInFlow
from valetkey.authorization.site.sign_in.second_factor import SecondFactor
from valetkey.authorization.site.sign_in.sign_in import SignInPages
from valetkey.authorization.site.sign_out import Logout, SignOutPages
from valetkey.authorization.site.sign_up import CreateAccount
from valetkey.kernel.refusal import Refused
from valetkey.kernel.replace import replace
from valetkey.web.exchange import Endpoint, Refuse, Request, Response
from valetkey.web.offload import Offload
from valetkey.web.router import Body, Route


class PageDependencies(Struct, frozen=True):
    """The dependencies that several groups of pages share."""

    foundation: Foundation
    server: Server
    passwords: PasswordSignIn
    sign_out: SignOut
    parts: Parts
    refuse: Refuse
    images: Offload
    token: Route
    userinfo: Route

    @property
    def renderer(self) -> Renderer:
        """Render pages in the current brand."""
        foundation, secure = self.foundation, self.server.cookies.secure
        configuration = configuration_of(foundation.settings)
        server = self.server
        return Renderer(server.brands, foundation.developers, secure, server.issuer, configuration)

    @property
    def factors(self) -> Factors:
        """The verifier of second factors."""
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
        """The steps of a sign-in."""
        return SignInFlow(self.server, self.factors, self.foundation.notices)

    def passwords_at(self, channel: str) -> PasswordSignIn:
        """Return the password check that counts failed attempts under this name."""
        return replace(self.passwords, channel=channel)

    @property
    def password_change(self) -> PasswordChange:
        """The password change of a signed-in user."""
        here = self.passwords_at("account")
        server = self.server
        return PasswordChange(here, self.foundation.accounts(), server.sessions, server.random)

    @property
    def email_change(self) -> EmailAddresses:
        """The change of an account's email address."""
        foundation = self.foundation
        return EmailAddresses(foundation.store, foundation.links, foundation.outbox)

    @property
    def of_features(self) -> Site:
        """What features build pages of users from."""
        return Site(
            self.parts,
            self.foundation.services,
            self.server,
            self.flow,
            _answer(self.token, "POST"),
            _answer(self.userinfo, "GET"),
        )


def page_routes(site: PageDependencies) -> tuple[Route, ...]:
    """Return the routes of pages, forms, assets, logos and pictures."""
    server, refuse = site.server, site.refuse
    pages = PageServer(server, site.renderer, refuse)
    language = LanguageEndpoint(server.brands, server.issuer).post
    asset, logo = AssetEndpoint(server.brands, server.store).get, LogoEndpoint(server.store).get
    picture = PictureEndpoint(server.store).get
    return (
        *pages.routes(visitor_pages(site)),
        *pages.routes(account_pages(site)),
        *(route for area in areas(site) for route in pages.routes(area)),
        *pages.routes(admin_pages(site.foundation, server.brands, site.parts.inspector)),
        Route(LANGUAGE, {"POST": language}, refuse, Body.FORM),
        # The page that says that the host is wrong has to look like a page.
        Route(ASSETS, {"GET": asset}, refuse, any_host=True),
        Route(LOGOS, {"GET": logo}, refuse),
        Route(UPLOADED, {"GET": picture}, refuse),
        *documentation_routes(site),
    )


def documentation_routes(site: PageDependencies) -> tuple[Route, ...]:
    """Return the routes of our copy of the documentation; none if `docs.url` is set."""
    if site.foundation.settings.docs.url:
        return ()
    get = documentation().get
    return tuple(Route(path, {"GET": get}, site.refuse) for path in (DOCS, DOCS_FILES))


def visitor_pages(site: PageDependencies) -> tuple[AnyPage, ...]:
    """Return the pages that need no session."""
    foundation, server = site.foundation, site.server
    links, outbox, accounts = foundation.links, foundation.outbox, foundation.accounts()
    mode, name = foundation.settings.accounts.sign_up, foundation.settings.brand.name
    by_link = site.passwords_at("mailed")
    sign_up = SignUp(mode, links, outbox, accounts, by_link, name)
    leave = SignOutPages(server.cookies, site.sign_out)
    owner = OwnerLinks(server, accounts, site.passwords_at("account"))
    of_features = site.of_features
    sign_in_links = tuple(
        link for feature in FEATURES for link in feature.sign_in_links(of_features)
    )
    return (
        *SignInPages(site.flow, site.passwords, mode, sign_in_links).pages(),
        *SecondFactor(site.flow).pages(),
        *ConsentPages(server).pages(),
        *(page for feature in FEATURES for page in feature.visitor(of_features)),
        *leave.pages(),
        *Logout(server, leave).pages(),
        *ErrorPages(server.issuer).pages(),
        *CreateAccount(site.flow, sign_up, foundation.people_invitations).pages(),
        *ResetPassword(PasswordReset(links, outbox, accounts, by_link), server.brands).pages(),
        *EmailLink(site.email_change, server.cookies, VoucherKind.EMAIL_CHANGE).pages(),
        *EmailLink(site.email_change, server.cookies, VoucherKind.EMAIL_VERIFY).pages(),
        *EmailLink(site.email_change, server.cookies, VoucherKind.EMAIL_UNDO).pages(),
        *Mailbox(server.store, server.brands, outbox).pages(),
        *owner.pages(),
    )


def account_pages(site: PageDependencies) -> tuple[AnyPage, ...]:
    """Return the pages of the account area, in the order of the navigation."""
    server, factors, notices = site.server, site.factors, site.foundation.notices
    store, scopes, settings = server.store, server.scopes, site.foundation.settings
    change, of_features = site.password_change, site.of_features
    sections = tuple(section for feature in FEATURES for section in feature.security(of_features))
    notices_of_features = tuple(feature.account_notices for feature in FEATURES)
    listed = ListedEvents.from_kinds(KINDS)
    overview = AccountOverview(store, server.sessions, listed, notices_of_features)
    profile = ProfilePages(store, server, server.brands)
    return (
        *Home(settings.accounts.sign_up, overview).pages(),
        *profile.pages(),
        *ProfilePicture(profile, site.images).pages(),
        *ConnectedAppListPages(store, server.directory, scopes).pages(),
        *ConnectedAppPages(store, scopes).pages(),
        *SessionPages(store, server.sessions, site.sign_out).pages(),
        *Security(store, server, factors, sections).pages(),
        *Password(store, server, change).pages(),
        *PasskeyPages(store, server, factors, notices).pages(),
        *AuthenticatorApp(store, server, factors, notices).pages(),
        *RequiredFactor(factors).pages(),
        *RecoveryCodePages(store, server, factors).pages(),
        *Confirm(store, server, factors, notices, change.passwords).pages(),
        *AccountActivity(store, listed).pages(),
        *Data(store, server, server.brands, site.foundation.settings.api_url).pages(),
        *RemoveAccount(store, server, site.foundation.removal).pages(),
        *EmailAddressPages(site.email_change).pages(),
        *(page for feature in FEATURES for page in feature.account(of_features)),
    )


def areas(site: PageDependencies) -> tuple[tuple[AnyPage, ...], ...]:
    """Return the pages of each area of a feature, in the order of its navigation."""
    of_features, services = site.of_features, site.foundation.services

    def of_apps(frame: str) -> tuple[AnyPage, ...]:
        return tuple(page for feature in FEATURES for page in feature.app_pages(services, frame))

    return tuple(pages for feature in FEATURES if (pages := feature.area(of_features, of_apps)))


def admin_pages(
    foundation: Foundation, brands: CurrentBrand, inspector: Inspector
) -> tuple[AnyPage, ...]:
    """Return the pages of the console, in the order of the navigation."""
    services, store = foundation.services, foundation.store
    links = [link for feature in FEATURES for link in feature.links]
    ids = NewIds(foundation.keyring, foundation.runtime.random)
    pages: list[AnyPage] = [
        *ConsoleOverview(store, inspector, services.kinds).pages(),
        *UserListPages(
            store, [link for feature in FEATURES for link in feature.users_links]
        ).pages(),
        *UserForms(services).pages(),
        *ApiRoleForms(services).pages(),
        *SelectedPages(services, SELECTED_USERS).pages(),
        *UserPages(services, Buttons.below("/users/{uid}", of=OPERATIONS), links).pages(),
        *GroupListPages(services).pages(),
        *GroupForm(services).pages(),
        *GroupPages(services, links).pages(),
        *SelectedPages(services, SELECTED_GROUPS).pages(),
        *RoleHolderPages(store, services.roles).pages(),
        *ClientListPages(store).pages(),
        *SelectedPages(services, SELECTED_APPS).pages(),
        *ClientForms(services, ids, foundation.requested_from_users, foundation.issuer).pages(),
        *ClientPages(services, links).pages(),
        *Registration(services).pages(),
        *EventPages(services).pages(),
        *SavedFilterForms(services.store).pages(),
        *Mail(services).pages(),
        *SigningKeyPages(services).pages(),
        *ApiTokenPages(services).pages(),
        *SettingsPages(services).pages(),
        *BrandPages(services, brands).pages(),
        *SettingForms(services).pages(),
    ]
    for feature in FEATURES:
        places = {"": feature.console_after, **feature.console_places}
        made = feature.console(services)
        for below, above in places.items():
            mine = [page for page in made if _place_of(page, places) == below]
            # The page that it follows may be gone with another feature.
            ends = (_end_of(pages, path) for path in above)
            index = next((end for end in ends if end), len(pages))
            pages[index:index] = mine
    kinds = tuple(kind for feature in FEATURES for kind in feature.search_kinds(services))
    return (*pages, *ConsoleSearch(services, kinds, Menu(pages).navigation().menu).pages())


def _end_of(pages: Sequence[AnyPage], path: str) -> int:
    """Return the position after the last page at or below this path; 0 if there is none."""
    ends = (n for n, page in enumerate(pages, 1) if f"{page.path}/".startswith(f"{path}/"))
    return max(ends, default=0)


def _place_of(page: AnyPage, places: Iterable[str]) -> str:
    """Return the longest of these paths at or above that of the page."""
    return max(
        (path for path in places if f"{page.path}/".startswith(f"{path}/" if path else "")), key=len
    )


def _answer(route: Route, method: str) -> Endpoint:
    """Return the response of a route to this method, also when it refuses."""

    async def answer(request: Request) -> Response:
        try:
            return await route.methods[method](request)
        except Refused as refused:
            return route.refuse(request, refused.refusal)

    return answer
