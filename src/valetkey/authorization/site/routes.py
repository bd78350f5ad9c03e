"""The pages' routes: which address is whose."""

from valetkey.authorization.actions.logout import SignOut
from valetkey.authorization.authentication.authenticate import PasswordSignIn
from valetkey.authorization.endpoints.authorize.authorize import Authorize
from valetkey.authorization.layout.addresses import (
    AUTHORIZE,
    CONSENT,
    HOME,
    LANGUAGE,
    SECOND_FACTOR,
    SIGN_IN,
    SIGN_OUT,
    SWITCH_ACCOUNT,
)
from valetkey.authorization.layout.language_choice import LanguageEndpoint
from valetkey.authorization.layout.navigation import NOWHERE, Navigation
from valetkey.authorization.site.assets import (
    ASSETS,
    LOGOS,
    AssetEndpoint,
    LogoEndpoint,
)
from valetkey.authorization.site.consent.consent import ConsentEndpoint
from valetkey.authorization.site.errors.explanation import ErrorPages
from valetkey.authorization.site.home import HomeEndpoint
from valetkey.authorization.site.sign_in.second_factor import SecondFactorEndpoint
from valetkey.authorization.site.sign_in.sign_in import (
    Buttons,
    SignInEndpoint,
    no_buttons,
)
from valetkey.authorization.site.sign_out.logout import LOGOUT, LogoutEndpoint
from valetkey.authorization.site.sign_out.sign_out import SignOutEndpoint
from valetkey.authorization.site.site import Site
from valetkey.authorization.tokens.mint import Minter
from valetkey.web.exchange import Endpoint, Refuse
from valetkey.web.router import Body, Route


def routes(
    site: Site,
    password: PasswordSignIn,
    minter: Minter,
    ending: SignOut,
    refuse: Refuse,
    buttons: Buttons = no_buttons,
    navigation: Navigation = NOWHERE,
) -> tuple[Route, ...]:
    """Every page for people and what pages refer to; `navigation` is that of the account area."""
    authorize, consent = Authorize(site, minter), ConsentEndpoint(site)
    sign_in = SignInEndpoint(site, password, buttons)
    second = SecondFactorEndpoint(site)
    sign_out, home = SignOutEndpoint(site, ending), HomeEndpoint(site, navigation)
    logout = LogoutEndpoint(site, sign_out)
    errors = ErrorPages(site.brands, site.issuer, site.configuration)

    def form(path: str, **methods: Endpoint) -> Route:
        return Route(path, methods, refuse, Body.FORM)

    def page(path: str, endpoint: Endpoint, *, any_host: bool = False) -> Route:
        return Route(path, {"GET": endpoint, "HEAD": endpoint}, refuse, any_host=any_host)

    return (
        form(AUTHORIZE, GET=authorize.get, POST=authorize.post),
        form(SIGN_IN, GET=sign_in.get, POST=sign_in.post),
        form(SECOND_FACTOR, GET=second.get, POST=second.post),
        form(CONSENT, GET=consent.get, POST=consent.post),
        form(SWITCH_ACCOUNT, POST=consent.switch_account),
        form(SIGN_OUT, GET=sign_out.get, POST=sign_out.post),
        form(LOGOUT, GET=logout.get, POST=logout.post),
        form(LANGUAGE, POST=LanguageEndpoint(site.brands, site.issuer).post),
        page(HOME, home.get),
        page("/account", home.lead),
        page("/errors/", errors.index),
        page("/errors/{code}", errors.explanation),
        page("/notices/query-string", errors.query_string),
        # The page that says that the host is wrong has to look like a page.
        page(ASSETS, AssetEndpoint(site.brands, site.store).get, any_host=True),
        page(LOGOS, LogoEndpoint(site.store).get),
    )
