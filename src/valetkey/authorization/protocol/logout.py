"""Signing out by the letter: RP-Initiated Logout 1.0, and what Session Management 1.0 computes."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256

from valetkey.authorization.model.register.client import Client
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
"""What an app may send along (RP-Initiated Logout section 2); everything else is ignored."""

LONGEST_STATE = 2_000
"""Characters of a `state` that is given back."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class Unreturned(StrEnum):
    """Why a person who signed out is not taken back to the app, although it asked for that."""

    HINT = "hint"
    APP = "app"
    UNKNOWN_APP = "unknown_app"
    ADDRESS = "address"
    STATE = "state"


@dataclass(frozen=True, slots=True)
class LogoutRequest:
    """What came, unjudged; "" for what did not come."""

    id_token_hint: str = ""
    client_id: str = ""
    post_logout_redirect_uri: str = ""
    state: str = ""

    @staticmethod
    def of(said: Mapping[str, str]) -> "LogoutRequest":
        """The request that these parameters make."""
        return LogoutRequest(
            id_token_hint=said.get("id_token_hint", ""),
            client_id=said.get("client_id", ""),
            post_logout_redirect_uri=said.get("post_logout_redirect_uri", ""),
            state=said.get("state", ""),
        )

    @property
    def named_clients(self) -> Collection[str]:
        """Every client that the request names, by id or as the audience of the hint.

        The hint's signature has not been looked at: its client is needed for that.
        """
        named = [self.client_id] if self.client_id else []
        return tuple(dict.fromkeys((*named, *_audience(self.id_token_hint))))


@dataclass(frozen=True, slots=True)
class Leaving:
    """What becomes of a request: who asks, where the person goes then, and why not if not.

    `returns_to` is the registered address with the state on it, "" for our own page.
    """

    client: Client | None = None
    returns_to: str = ""
    unreturned: Unreturned | None = None


def judge(asked: LogoutRequest, client: Client | None, *, hint_is_good: bool) -> Leaving:
    """Where a person who signs out goes.

    `client` is the only one that the request names, None where it names none, several, or one
    that is not registered or switched off. Nothing here decides whether somebody is signed out.
    """
    wants = bool(asked.post_logout_redirect_uri)
    if len(asked.named_clients) > 1:
        return Leaving(None, "", Unreturned.APP if wants else None)
    if asked.id_token_hint and not hint_is_good:
        # Who sends a token that is not ours is not believed in anything else.
        return Leaving(client, "", Unreturned.HINT if wants else None)
    if client is None:
        return Leaving(None, "", Unreturned.UNKNOWN_APP if wants else None)
    if not wants:
        return Leaving(client)
    if asked.post_logout_redirect_uri not in client.openid.post_logout_redirect_uris:
        return Leaving(client, "", Unreturned.ADDRESS)
    if len(asked.state) > LONGEST_STATE or _CONTROL.search(asked.state):
        return Leaving(client, "", Unreturned.STATE)
    state = (("state", asked.state),) if asked.state else ()
    return Leaving(client, append_query(asked.post_logout_redirect_uri, state))


def session_state(client_id: str, origin: str, browser_state: str, salt: str) -> str:
    """The `session_state` of an authentication response: `<hash>.<salt>` (section 3.2).

    `origin` is that of the redirect URI (`kernel.url.origin`), `browser_state` what
    `Cookies.browser_state` says of the session, `salt` is fresh and without a dot.
    """
    return f"{sha256(f'{client_id} {origin} {browser_state} {salt}'.encode()).hexdigest()}.{salt}"


def frame_address(uri: str, issuer: str, session_id: str, *, says_which: bool) -> str:
    """What the frame of an app shows when a session ends (Front-Channel Logout section 3).

    With `says_which`, as the app registered it, it is told which session of which issuer.
    """
    return append_query(uri, (("iss", issuer), ("sid", session_id)) if says_which else ())


def _audience(token: str) -> tuple[str, ...]:
    """The one client that a JWT says it is for; empty for anything else."""
    parts = token.split(".", 3)
    payload = from_base64url(parts[1]) if len(parts) == 3 else None  # noqa: PLR2004 - of a JWT
    claims = None if payload is None else read_object(payload)
    audience = None if claims is None else claims.get("aud")
    return (audience,) if isinstance(audience, str) else ()
