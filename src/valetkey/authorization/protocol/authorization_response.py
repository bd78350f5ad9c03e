"""The authorization response: its type, its mode, its return address and its parameters.

RFC 6749 sections 4.1.2 and 4.2.2, OAuth 2.0 Multiple Response Types, with the issuer of RFC 9207 in
every response; sent in the query, the fragment or a form (OAuth Form Post Response Mode).
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import NoReturn

from msgspec import Struct

from valetkey.authorization.model.client import Client, GrantTypeName
from valetkey.authorization.protocol.claims import OPENID
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.url import append_query, with_fragment

_LONGEST = 40


class ResponseType(StrEnum):
    """The registered response types."""

    CODE = "code"
    TOKEN = "token"  # the implicit grant
    ID_TOKEN = "id_token"
    ID_TOKEN_TOKEN = "id_token token"
    CODE_ID_TOKEN = "code id_token"
    CODE_TOKEN = "code token"
    CODE_ID_TOKEN_TOKEN = "code id_token token"

    @property
    def words(self) -> frozenset[str]:
        """The components; their order has no meaning (RFC 6749 section 3.1.1)."""
        return frozenset(self.split(" "))

    @property
    def has_code(self) -> bool:
        """Whether it includes an authorization code."""
        return "code" in self.words

    @property
    def has_token(self) -> bool:
        """Whether it includes an access token."""
        return "token" in self.words

    @property
    def has_id_token(self) -> bool:
        """Whether it includes an ID token."""
        return "id_token" in self.words

    @property
    def needs(self) -> tuple[GrantTypeName, ...]:
        """The grant types a client needs for it (OpenID Connect Registration section 2).

        Anything returned beside the code needs `implicit`.
        """
        code = (GrantTypeName.AUTHORIZATION_CODE,) if self.has_code else ()
        return code if self is ResponseType.CODE else (*code, GrantTypeName.IMPLICIT)

    @staticmethod
    def parse(text: str) -> "ResponseType | None":
        """Return the type named by `text`, in any order of its words; None if there is none."""
        # Bounds the work: nothing longer can be a response type.
        words = text[:_LONGEST].split(" ")
        response_type = _TYPES.get(frozenset(words))
        return (
            response_type if response_type is not None and len(response_type) == len(text) else None
        )


_TYPES: Mapping[frozenset[str], ResponseType] = {
    response_type.words: response_type for response_type in ResponseType
}


class ResponseMode(StrEnum):
    """How the response is delivered (Multiple Response Types 2.1, Form Post Response Mode)."""

    QUERY = "query"
    FRAGMENT = "fragment"
    FORM_POST = "form_post"

    def fits(self, response_type: ResponseType) -> bool:
        """Return whether responses of that type may be delivered this way.

        Only codes may be put into a query, which ends up in histories and logs. The plain implicit
        grant uses the fragment only.
        """
        if self is ResponseMode.QUERY:
            return response_type is ResponseType.CODE
        return self is ResponseMode.FRAGMENT or response_type is not ResponseType.TOKEN


def default_mode(response_type: ResponseType) -> ResponseMode:
    """Return the default mode for a response type."""
    return ResponseMode.QUERY if response_type is ResponseType.CODE else ResponseMode.FRAGMENT


def mode_of_answer(response_type: str, response_mode: str | None) -> ResponseMode:
    """Return the mode of the response to a request, including an error response.

    The requested mode if it is allowed for the type, otherwise the default of the type or of what
    its words would return.
    """
    kind = ResponseType.parse(response_type)
    if kind is None:
        words = response_type[:_LONGEST].split(" ")
        in_front = "token" in words or "id_token" in words
        kind = ResponseType.ID_TOKEN if in_front else ResponseType.CODE
    try:
        mode = default_mode(kind) if response_mode is None else ResponseMode(response_mode)
    except ValueError:
        return default_mode(kind)
    return mode if mode.fits(kind) else default_mode(kind)


def may_ask_for(client: Client, response_type: ResponseType) -> bool:
    """Return whether the client registered for it, has its grant types, and may use them."""
    registered = client.openid.response_types
    if registered and response_type not in {ResponseType.parse(text) for text in registered}:
        return False
    return all(client.may_use(grant_type) for grant_type in response_type.needs)


Pairs = tuple[tuple[str, str], ...]
"""Response parameters, in order."""

LONGEST_STATE = 4_096
"""Maximum length of a state in bytes."""

_SHOWN = 200
# Browsers convert every line break in a form to CR LF, and HTML cannot express NUL.
_UNPOSTABLE = re.compile(r"[\x00\r\n]")


class ReturnAddress(Struct, frozen=True):
    """The return address of the response: a registered redirect URI, the response mode, the state.

    `redirect_uri_given` says whether the request named the redirect URI. `state` is None if there
    was none or if it cannot be returned unchanged: it is too long, or has line breaks and the mode
    is a form.
    """

    redirect_uri: str
    redirect_uri_given: bool
    mode: ResponseMode
    state: str | None


def verify_return_address(
    parameters: Mapping[str, str], client: Client, also: str = ""
) -> ReturnAddress:
    """Return the verified return address of the request: a registered one, or one of `also`.

    Refused with `invalid_request` for an unregistered redirect URI; nothing may be redirected then.
    """
    mode = mode_of_answer(parameters.get("response_type", ""), parameters.get("response_mode"))
    state = parameters.get("state") or None
    if state is not None and not _can_return(state, mode):
        state = None
    presented = parameters.get("redirect_uri")
    if presented is None:
        # OpenID Connect requires `redirect_uri` (Core 3.1.2.1); OAuth defaults to the only one.
        is_openid = OPENID in parameters.get("scope", "").split(" ")
        if len(client.redirect_uris) == 1 and not is_openid:
            return ReturnAddress(client.redirect_uris[0], False, mode, state)
        _unproven("redirect_uri is missing", "redirect_uri.missing", client, "nothing")
    if not (also and presented == also) and not client.registered_redirect_uri(presented):
        # Without query and fragment, where a misconfigured client may have put a secret.
        shown = ascii(re.split("[?#]", presented)[0][:_SHOWN])
        _unproven(
            "redirect_uri is not registered for this app", "redirect_uri.unknown", client, shown
        )
    return ReturnAddress(presented, True, mode, state)


def answer(returns: ReturnAddress, issuer: str, pairs: Pairs) -> Pairs:
    """Return `pairs` with the client's state and the issuer."""
    state = () if returns.state is None else (("state", returns.state),)
    return (*pairs, *state, ("iss", issuer))


def error_answer(returns: ReturnAddress, issuer: str, refusal: Refusal, reference: str) -> Pairs:
    """Return an error response: code, description, `error_uri`, state and issuer.

    With a `reference`, the error page leads the app's team to the decision record.
    """
    pairs = (
        ("error", refusal.code.value),
        ("error_description", refusal.description),
        ("error_uri", explained_at(issuer, refusal.code, reference)),
    )
    return answer(returns, issuer, pairs)


def explained_at(issuer: str, code: ErrorCode, reference: str) -> str:
    """Return the address of the page that explains an error, with the reference of its record."""
    return f"{issuer}/errors/{code.value}?reference={reference}"


def redirect_to(returns: ReturnAddress, pairs: Pairs) -> str:
    """Return the redirect URI with `pairs` in its query or fragment, depending on the mode."""
    if returns.mode is ResponseMode.FRAGMENT:
        return with_fragment(returns.redirect_uri, pairs)
    # A redirect without a fragment inherits the one of the page before it, so an attacker who
    # opened our page with a fragment could inject it into the client. An empty fragment prevents
    # that; `#_` would too, but is visible to apps that read their fragment.
    return append_query(returns.redirect_uri, pairs) + "#"


def _can_return(state: str, mode: ResponseMode) -> bool:
    if mode is ResponseMode.FORM_POST and _UNPOSTABLE.search(state):
        return False
    return len(state.encode()) <= LONGEST_STATE


def _unproven(description: str, check: str, client: Client, received: str) -> NoReturn:
    registered = f"one of the redirect URIs of {client.id}: {', '.join(client.redirect_uris)}"
    raise Refused.because(
        ErrorCode.INVALID_REQUEST, description, check, registered[:2_000], received, about=client.id
    )
