"""Provider: the interface of upstream sign-in servers, and checks of their responses."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Protocol

import msgspec
from msgspec import Struct

from valetkey.authorization.layout.addresses import SIGN_IN
from valetkey.authorization.providers.settings import ProviderSettings
from valetkey.fetch.outbound import Fetched, OutboundHttp, Unfetchable
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.secret import Secret
from valetkey.kernel.strict_json import read_object
from valetkey.kernel.words import printable

FEDERATED = "fed"
"""The authentication method of upstream sign-ins; RFC 8176 defines none."""

WITH = f"{SIGN_IN}/with"
"""The path of the page that redirects to a provider, without the id of the provider."""

LONGEST_CODE = 2_000
NEVER_ISSUED = "test"
"""A code that no provider issues."""

LONGEST_SUBJECT = 255
"""Maximum number of characters in a `sub` (OpenID Connect Core section 2)."""

LARGEST_KEPT = 8_192
"""Maximum size of the kept claims of one account in bytes of JSON."""

_LONGEST_RECEIVED = 300
_LONGEST_EMAIL = 254
_LONGEST_NAME = 100


class ClaimedIdentity(Struct, frozen=True):
    """The identity a provider asserts. `issuer` and `subject` together are unique.

    `email` is "" if the provider sends none; `email_verified` is whether it has verified it. `kept`
    are the claims that `keep_claims` names, None if it names none.
    """

    issuer: str
    subject: str
    email: str = ""
    email_verified: bool = False
    name: str = ""
    username: str = ""
    kept: Mapping[str, object] | None = None
    auth_time: Instant | None = None
    """When the provider authenticated the user, None if it does not say; never in the future."""

    @property
    def proven_email(self) -> str:
        """Return the user's verified email address; "" for none."""
        return self.email if self.email_verified else ""


@dataclass(frozen=True, slots=True, repr=False)
class UpstreamState:
    """The state, nonce and verifier of one upstream sign-in. Never printed."""

    state: str
    nonce: str
    verifier: str
    callback: str
    departed_at: Instant = Instant(0)
    """When the browser was redirected to the provider."""

    fresh: bool = False
    """Whether the provider must authenticate the user again, after `departed_at`."""


SignAssertion = Callable[[str, str, Collection[str]], Awaitable[str]]
"""Sign a client assertion of this client ID, for an audience, with one of these algorithms."""


class Provider(Protocol):
    """One upstream server."""

    @property
    def settings(self) -> ProviderSettings:
        """Return its configuration."""
        ...

    async def authorization_url(self, upstream_state: UpstreamState) -> str:
        """Return the URL to redirect to. Refused if the provider is unreachable."""
        ...

    async def read(
        self, answer: Mapping[str, str], upstream_state: UpstreamState, now: Instant
    ) -> ClaimedIdentity:
        """Return the identity for the callback's parameters.

        Refused if they do not prove one; the state was compared before.
        """
        ...

    async def probe(self, upstream_state: UpstreamState) -> None:
        """Do what a sign-in does without a user, with a code that the provider never issued.

        Nothing is taken from a cache. Refused if something is wrong besides the code.
        """
        ...


@dataclass(frozen=True, slots=True)
class ProviderConnection:
    """The connection to one provider: its configuration, our secret and the HTTP client."""

    settings: ProviderSettings
    secret: Secret = field(repr=False)
    http: OutboundHttp
    now: Callable[[], Instant]
    sign: SignAssertion | None = None


def unusable(
    provider: ProviderSettings, check: str, received: str = "", expected: str = ""
) -> Refused:
    """Return a refusal: the provider's response proves nothing; details go to the event log.

    Never pass a secret, a token or a personal claim as `received`.
    """
    return Refused.because(
        ErrorCode.ACCESS_DENIED,
        "the other server did not confirm who you are; nothing was changed",
        f"federation.{check}",
        expected or f"an answer of {provider.id}",
        printable(received[:_LONGEST_RECEIVED], "?"),
    )


def redirect_uri(issuer: str, provider_id: str) -> str:
    """Return the URL to which a provider redirects."""
    return f"{issuer}{WITH}/{provider_id}/callback"


def code_of(answer: Mapping[str, str], provider: ProviderSettings) -> str:
    """Return the callback's code; refused if there is none (RFC 6749 section 4.1.2)."""
    if answer.get("error"):
        check = "declined" if answer["error"] == "access_denied" else "error"
        raise unusable(provider, check)
    code = answer.get("code", "")
    if not code or len(code) > LONGEST_CODE or not code.isascii() or not code.isprintable():
        raise unusable(provider, "code")
    return code


def plain(value: object, longest: int = _LONGEST_NAME) -> str:
    """Return a text from the provider that may be displayed; "" for anything else."""
    if not isinstance(value, str) or len(value) > longest or not value.isprintable():
        return ""
    return value.strip()


def kept_claims(
    provider: ProviderSettings, claims: Mapping[str, object]
) -> Mapping[str, object] | None:
    """Return the claims that the provider's `keep_claims` names; None if it names none.

    Refused above 8 KiB: a claim that decides what a user may do must not disappear silently.
    """
    if not provider.keep_claims:
        return None
    kept = {name: claims[name] for name in provider.keep_claims if claims.get(name) is not None}
    try:
        encoded = msgspec.json.encode(kept)
    except (msgspec.MsgspecError, ValueError, OverflowError):
        encoded = b""
    if read_object(encoded) is None:
        raise unusable(provider, "kept_claims", expected="claims that every JSON parser reads")
    size = len(encoded)
    if size > LARGEST_KEPT:
        raise unusable(provider, "kept_claims", f"{size} bytes; at most {LARGEST_KEPT}")
    return kept


def address(value: object) -> str:
    """Return an email address from the provider; "" for an invalid one."""
    text = plain(value, _LONGEST_EMAIL)
    name, at, domain = text.rpartition("@")
    fine = name and at and domain and "@" not in name and not set(text) & set(' ,;:<>()[]\\"')
    return text if fine else ""


async def fetched(asking: Awaitable[Fetched], provider: ProviderSettings, what: str) -> Fetched:
    """Return the provider's response; refused unless it is a 200."""
    try:
        answered = await asking
    except Unfetchable as error:
        raise unusable(provider, what, error.check) from None
    if answered.status != HTTPStatus.OK:
        raise unusable(provider, what, f"status {answered.status}")
    return answered


_UNKNOWN_CODE = frozenset({"invalid_grant", "bad_verification_code"})
_WRONG_CLIENT = frozenset({"invalid_client", "unauthorized_client", "incorrect_client_credentials"})
_WRONG_REDIRECT_URI = "redirect_uri_mismatch"


async def only_code_refused(asking: Awaitable[Fetched], provider: ProviderSettings) -> Fetched:
    """Return the response to a token request with a code that the provider never issued.

    Refused unless it accepted our credentials and refused the code.
    """
    try:
        answered = await asking
    except Unfetchable as failure:
        raise unusable(provider, "token", failure.check) from None
    error = plain((read_object(answered.body) or {}).get("error"))
    if error in _UNKNOWN_CODE:
        return answered
    if error in _WRONG_CLIENT or answered.status == HTTPStatus.UNAUTHORIZED:
        raise unusable(provider, "client", error)
    if error == _WRONG_REDIRECT_URI:
        raise unusable(provider, "redirect_uri", error)
    raise unusable(provider, "token", error or f"status {answered.status}")


def one_line(token: str) -> str:
    """Return a token as a header value; characters a header cannot carry are replaced."""
    return token if token.isascii() and token.isprintable() and " " not in token else "-"
