"""Sign-out: RP-Initiated Logout 1.0, and the `session_state` of Session Management 1.0."""

import re
from collections.abc import Collection, Mapping
from enum import StrEnum
from hashlib import sha256

from msgspec import Struct

from valetkey.authorization.model.client import Client
from valetkey.kernel.secret import from_base64url
from valetkey.kernel.strict_json import read_object
from valetkey.kernel.url import append_query

PARAMETERS = (
    "id_token_hint",
    "logout_hint",
    "client_id",
    "post_logout_redirect_uri",
    "state",
    "ui_locales",
)
"""Known parameters (RP-Initiated Logout section 2); others are ignored."""

LONGEST_STATE = 4_096
"""Maximum length of a `state` that is returned."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class NotRedirected(StrEnum):
    """Why a signed-out user is not sent back to the app although it requested that."""

    HINT = "hint"
    APP = "app"
    UNKNOWN_APP = "unknown_app"
    ADDRESS = "address"
    STATE = "state"


class LogoutRequest(Struct, frozen=True):
    """An unchecked logout request; "" for absent parameters."""

    id_token_hint: str = ""
    client_id: str = ""
    post_logout_redirect_uri: str = ""
    state: str = ""

    @staticmethod
    def from_parameters(parameters: Mapping[str, str]) -> "LogoutRequest":
        """Return the request with these parameters."""
        return LogoutRequest(
            id_token_hint=parameters.get("id_token_hint", ""),
            client_id=parameters.get("client_id", ""),
            post_logout_redirect_uri=parameters.get("post_logout_redirect_uri", ""),
            state=parameters.get("state", ""),
        )

    @property
    def named_clients(self) -> Collection[str]:
        """Return the clients that the request names, by id or as the audience of the hint.

        The hint's signature is not verified yet: that requires its client.
        """
        named = [self.client_id] if self.client_id else []
        return tuple(dict.fromkeys((*named, *_audience(self.id_token_hint))))


class LogoutDecision(Struct, frozen=True):
    """The decision about a logout request: the app, the return address and why there is none.

    `returns_to` is the registered address with the state, "" for our own page.
    """

    client: Client | None = None
    returns_to: str = ""
    unreturned: NotRedirected | None = None


def decide_logout(
    logout_request: LogoutRequest, client: Client | None, *, hint_is_good: bool
) -> LogoutDecision:
    """Decide where the user goes after signing out.

    `client` is the only client the request names; None if it names none or several, or one that is
    not registered or is disabled. Whether someone is signed in is not decided here.
    """
    wants = bool(logout_request.post_logout_redirect_uri)
    if len(logout_request.named_clients) > 1:
        return LogoutDecision(None, "", NotRedirected.APP if wants else None)
    if logout_request.id_token_hint and not hint_is_good:
        # Do not trust the other parameters of a request with a foreign token.
        return LogoutDecision(client, "", NotRedirected.HINT if wants else None)
    if client is None:
        return LogoutDecision(None, "", NotRedirected.UNKNOWN_APP if wants else None)
    if not wants:
        return LogoutDecision(client)
    if logout_request.post_logout_redirect_uri not in client.openid.post_logout_redirect_uris:
        return LogoutDecision(client, "", NotRedirected.ADDRESS)
    if len(logout_request.state) > LONGEST_STATE or _CONTROL.search(logout_request.state):
        return LogoutDecision(client, "", NotRedirected.STATE)
    state = (("state", logout_request.state),) if logout_request.state else ()
    return LogoutDecision(client, append_query(logout_request.post_logout_redirect_uri, state))


def session_state(client_id: str, origin: str, browser_state: str, salt: str) -> str:
    """Return the `session_state` of an authentication response: `<hash>.<salt>` (section 3.2).

    `origin` is that of the redirect URI (`kernel.url.origin`), `browser_state` comes from
    `Cookies.browser_state`; `salt` is random and contains no dot.
    """
    return f"{sha256(f'{client_id} {origin} {browser_state} {salt}'.encode()).hexdigest()}.{salt}"


def frame_address(uri: str, issuer: str, session_id: str, *, says_which: bool) -> str:
    """Return the URL of an app's logout frame (Front-Channel Logout section 3).

    With `says_which`, as the app registered it, the URL names the session and the issuer.
    """
    return append_query(uri, (("iss", issuer), ("sid", session_id)) if says_which else ())


def _audience(token: str) -> tuple[str, ...]:
    """Return the single audience of an unverified JWT; empty for anything else."""
    parts = token.split(".", 3)
    payload = from_base64url(parts[1]) if len(parts) == 3 else None  # noqa: PLR2004 - of a JWT
    claims = None if payload is None else read_object(payload)
    audience = None if claims is None else claims.get("aud")
    return (audience,) if isinstance(audience, str) else ()
