"""Rendering of pages as responses, and the presentation of apps and users on them."""

from collections.abc import Sequence

from msgspec import Struct

from valetkey.authorization.actions.presets import DeveloperPolicy
from valetkey.authorization.actions.users import PICTURES
from valetkey.authorization.authentication.session import SignedIn
from valetkey.authorization.layout.assets import CurrentBrand
from valetkey.authorization.layout.contexts import AskingApp, CurrentUser
from valetkey.authorization.layout.render import (
    PageContext,
    connects,
    content_security_policy,
    render,
    scripts_of,
)
from valetkey.authorization.layout.viewer import (
    NOWHERE,
    UNNAMED,
    Navigation,
    ServerConfiguration,
    content_language,
    requested_language,
    viewer_of,
)
from valetkey.authorization.model.client import Client
from valetkey.authorization.model.user import User
from valetkey.authorization.protocol.authorization_request import AuthorizationRequest
from valetkey.authorization.protocol.register.self_registration import SCHEME, host_of_document
from valetkey.kernel.url import origin
from valetkey.web.exchange import Pairs, Request, Response, html_response


class Renderer(Struct, frozen=True):
    """Render pages in the brand and the visitor's language.

    `secure` is True on https; it sets the Secure attribute of cookies. `issuer` is this server.
    """

    brands: CurrentBrand
    developers: DeveloperPolicy
    secure: bool
    issuer: str
    configuration: ServerConfiguration = UNNAMED

    def page(
        self,
        request: Request,
        page: PageContext,
        status: int = 200,
        *,
        user: User | None = None,
        returns_to: str = "",
        frames: Sequence[str] = (),
        headers: Pairs = (),
        navigation: Navigation = NOWHERE,
        csrf: str = "",
    ) -> Response:
        """Return the page; `user` is signed in, and its forms may redirect to `returns_to`.

        `csrf` is the token of its forms.
        """
        languages = self.brands.current.languages
        policy = content_security_policy(
            returns_to=returns_to,
            scripts=bool(scripts_of(page, navigation)),
            connects=connects(page, navigation),
            frames=frames,
        )
        viewer = viewer_of(
            request,
            user,
            languages=languages,
            configuration=self.configuration,
            develops=user is not None and self.developers.has_area(user),
            picture="" if user is None else self._picture(user),
        )
        body = render(
            page, brand=self.brands.current, viewer=viewer, navigation=navigation, csrf=csrf
        )
        wish = requested_language(request, languages, secure=self.secure)
        return html_response(body, status, policy, (*content_language(viewer), *wish, *headers))

    def _picture(self, user: User) -> str:
        # Pages load images of this server only; a claim may name a picture elsewhere.
        path = user.claims.picture.removeprefix(self.issuer)
        return path if path.startswith(f"{PICTURES}/") else ""


def logo_of(client: Client) -> str:
    """Return the path of our copy of an app's logo; "" if it is shown by its initial."""
    return f"/logos/{client.logo}" if client.logo and client.may_show_logo else ""


def asking_app(client: Client, request: AuthorizationRequest, *, signed_in: bool) -> AskingApp:
    """Return the app as users see it, with the host that gets the response.

    Before a user has signed in, only a verified app shows its logo and its links.
    """
    return shown_app(client, request.returns.redirect_uri, signed_in=signed_in)


def shown_app(client: Client, redirect_uri: str, *, signed_in: bool) -> AskingApp:
    """Return the app as `asking_app` does, for this redirect URI; "" if it has none."""
    redirect_origin = origin(redirect_uri) if redirect_uri else ""
    is_shown = signed_in or client.verified_at is not None
    return AskingApp(
        name=client.name or client.id,
        domain=redirect_origin.partition("://")[2] or redirect_origin,
        logo_url=logo_of(client) if is_shown else "",
        policy_url=client.policy_uri if is_shown else "",
        terms_url=client.tos_uri if is_shown else "",
        verified=client.verified_at is not None,
        self_registered=client.self_registered,
        document_host=document_host(client),
    )


def document_host(client: Client) -> str:
    """Return the host of an unreviewed client's document; "" for other registrations."""
    is_document = client.self_registered and client.id.startswith(SCHEME)
    return host_of_document(client.id) if is_document else ""


def shown_user(signed_in: SignedIn) -> CurrentUser:
    """Return the user as pages show them."""
    user = signed_in.user
    return CurrentUser(user.username, user.name, user.email)
