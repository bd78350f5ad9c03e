"""Tokens as a token endpoint gives them, and why it gave none (RFC 6749 section 5)."""

from dataclasses import dataclass

import msgspec

from valetkey.kernel.moment import Instant, Lifetime, later
from valetkey.kernel.secret import Secret

_RENEW_BEFORE = 30  # seconds, or half its life for a token that lives shorter than a minute
_UNTOLD = 300  # seconds that a token is thought to live whose life the server does not tell


class Rejected(Exception):
    """The authorization server, or the person, said no; `code` is the error of RFC 6749."""

    def __init__(self, code: str, description: str = "") -> None:
        """Carry the error."""
        super().__init__(f"{code}: {description}" if description else code)
        self.code = code
        self.description = description


class SignInNeeded(Exception):
    """There is no token and no way to renew one: a person has to sign in."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """An access token, until when it counts, and what renews it, if anything does."""

    access_token: Secret
    scope: str
    expires_at: Instant
    renew_at: Instant
    refresh_token: Secret | None = None

    def is_live(self, now: Instant) -> bool:
        """Whether the access token has not expired."""
        return self.expires_at > now

    def is_fresh(self, now: Instant) -> bool:
        """Whether it is too early to renew it."""
        return self.renew_at > now


@dataclass(frozen=True, slots=True)
class _Granted:
    access_token: str
    token_type: str
    expires_in: int = _UNTOLD
    refresh_token: str = ""
    scope: str | None = None


@dataclass(frozen=True, slots=True)
class _Error:
    error: str
    error_description: str = ""


def read_tokens(body: bytes, now: Instant, *, scope: str, old: Secret | None = None) -> Tokens:
    """The tokens that a response says; `scope` and the `old` refresh token stay if it says none.

    Raises Rejected.
    """
    try:
        granted = msgspec.json.decode(body, type=_Granted)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise Rejected("invalid_response", "this is no token response") from None
    if granted.token_type.lower() != "bearer" or not granted.access_token:
        raise Rejected("invalid_response", "the token is no bearer token")
    life = max(granted.expires_in, 0)
    expires_at = later(now, Lifetime(life))
    return Tokens(
        access_token=Secret(granted.access_token),
        scope=scope if granted.scope is None else granted.scope,
        expires_at=expires_at,
        renew_at=Instant(expires_at - min(_RENEW_BEFORE, life // 2)),
        refresh_token=Secret(granted.refresh_token) if granted.refresh_token else old,
    )


def read_error(body: bytes) -> Rejected:
    """What an answer other than 200 says."""
    try:
        said = msgspec.json.decode(body, type=_Error)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return Rejected("invalid_response", "the authorization server's answer makes no sense")
    return Rejected(said.error, said.error_description)
