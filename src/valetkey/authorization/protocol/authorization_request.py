"""The authorization request: what a client may ask for (RFC 6749 4.1.1, OpenID Connect Core 3).

In two steps, because they are refused differently. `require_client` and `prove` find out where the
answer may go (see authorization_response); what they refuse is told to the person and never to any
address. `parse` judges the rest; what it refuses is told to the client.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import NoReturn

from valetkey.authorization.model.register.client import CLIENT_SCOPE, Client, GrantTypeName
from valetkey.authorization.protocol.authorization_response import LONGEST_STATE, ReturnAddress
from valetkey.authorization.protocol.claims import (
    OFFLINE_ACCESS,
    OPENID,
    ClaimsRequest,
    claims_of_scope,
)
from valetkey.authorization.protocol.pkce import check_challenge
from valetkey.authorization.protocol.response_type import (
    ResponseMode,
    ResponseType,
    may_ask_for,
)
from valetkey.kernel.moment import Instant, Lifetime
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.scope import Scope

PARAMETERS = (
    "client_id",
    "redirect_uri",
    "response_type",
    "response_mode",
    "scope",
    "state",
    "nonce",
    "prompt",
    "max_age",
    "login_hint",
    "id_token_hint",
    "claims",
    "resource",
    "code_challenge",
    "code_challenge_method",
    "ui_locales",
)
"""What changes the answer or the pages; any other is ignored (RFC 6749 section 3.1).

Ignored are `display` and `claims_locales`, because there is one kind of page, and `acr_values`,
because there is one kind of sign-in and its name is always said.
"""

UNSUPPORTED: Mapping[str, ErrorCode] = MappingProxyType(
    {
        "request": ErrorCode.REQUEST_NOT_SUPPORTED,
        "request_uri": ErrorCode.REQUEST_URI_NOT_SUPPORTED,
        "registration": ErrorCode.REGISTRATION_NOT_SUPPORTED,
    }
)
"""What is refused, because ignoring it would answer another question than the one asked."""

UI_LOCALES = "ui_locales"
_LONGEST_WISH = 200
"""Characters of it; nobody reads so many languages, and a wish is never a reason to refuse."""

LONGEST_NONCE = 512
_LONGEST_HINT = 320
_LONGEST_CLIENT_ID = 200
_SHOWN = 200

LONGEST_HINT = 6_000
"""Characters in an `id_token_hint`."""

_OFFLINE = Scope.of(OFFLINE_ACCESS)
_OPENID = Scope.of(OPENID)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_CLIENT_ID = re.compile(r"[\x20-\x7e]+")
_SECONDS = re.compile(r"[0-9]{1,9}", re.ASCII)


class Prompt(StrEnum):
    """What the person must, or must not, be asked (OpenID Connect Core section 3.1.2.1)."""

    NONE = "none"
    LOGIN = "login"
    CONSENT = "consent"
    SELECT_ACCOUNT = "select_account"


@dataclass(frozen=True, slots=True)
class AuthorizationRequest:
    """A request that its client may make. `scope` is never empty and never a client's own."""

    client_id: str
    response_type: ResponseType
    returns: ReturnAddress
    scope: Scope
    code_challenge: str
    nonce: str
    prompt: frozenset[Prompt]
    max_age: Lifetime | None
    login_hint: str
    id_token_hint: str
    claims: ClaimsRequest

    @property
    def is_openid(self) -> bool:
        """Whether the client will be told of the session (Core section 3.1.2.1)."""
        return OPENID in self.scope and self.response_type is not ResponseType.TOKEN

    @property
    def needed_acrs(self) -> tuple[str, ...]:
        """The classes of sign-in one of which is essential, as `claims` says; empty for any."""
        acr = self.claims.id_token.get("acr")
        return acr.accepted if acr is not None and acr.essential else ()

    @property
    def single_claims(self) -> tuple[str, ...]:
        """The personal claims that are asked for by name and by no scope, in order of the names."""
        named = self.claims.names
        return tuple(sorted(named.difference(claims_of_scope(self.scope)))) if named else ()

    @property
    def may_interact(self) -> bool:
        """Whether a person may be asked anything."""
        return Prompt.NONE not in self.prompt

    def wants_fresh_sign_in(self, auth_time: Instant, now: Instant) -> bool:
        """Whether a sign-in of that time is not enough, unless it was made for this request."""
        if Prompt.LOGIN in self.prompt or Prompt.SELECT_ACCOUNT in self.prompt:
            return True
        # In whole seconds: a second that has begun counts, or 0 and 1 would ask nobody again.
        return self.max_age is not None and now - auth_time >= self.max_age


def understood(parameters: Mapping[str, str]) -> dict[str, str]:
    """What the request says, without what is ignored; an empty value counts as none.

    An empty redirect URI stays: it is not a redirect URI that was left out.
    """
    return {
        name: value
        for name, value in parameters.items()
        if (name in PARAMETERS or name in UNSUPPORTED)
        and (value or name == "redirect_uri")
        and not (name == UI_LOCALES and len(value) > _LONGEST_WISH)
    }


def plausible_client_id(text: str | None) -> str | None:
    """The client id, if any client could have it."""
    if not text or len(text) > _LONGEST_CLIENT_ID or _CLIENT_ID.fullmatch(text) is None:
        return None
    return text


def require_client(client: Client | None) -> Client:
    """The client; refused with `invalid_request`, in the same words, if unknown or disabled."""
    if client is None or client.disabled_at is not None:
        # The record may tell them apart, the page must not.
        received = "no client has that id" if client is None else "a disabled client"
        raise Refused(
            Refusal(
                ErrorCode.INVALID_REQUEST,
                "client_id names no app that is registered here",
                "authorize.client",
                "a registered client",
                received,
            )
        )
    return client


def parse(
    parameters: Mapping[str, str],
    client: Client,
    returns: ReturnAddress,
    *,
    known: Collection[str],
    resource: str,
) -> AuthorizationRequest:
    """The request, judged by what `client` is registered for.

    `known` are the scopes that exist, `resource` is the one API tokens are for. Raises Refused with
    the code that the client is to be told.
    """
    text = parameters.get("state")
    if text is not None and returns.state is None:
        _refuse(
            f"state has more than {LONGEST_STATE} bytes, or line ends that a form would change",
            "state.long",
            received=_size(text),
        )
    for name, code in UNSUPPORTED.items():
        if name in parameters:
            _refuse(f"{name} is not supported", f"{name}.unsupported", code)
    response_type = _response_type(parameters, client, returns)
    if parameters.get("resource", resource) != resource:
        _refuse(
            "tokens of this server are not for that resource",
            "resource.unknown",
            ErrorCode.INVALID_TARGET,
            expected=resource,
            received="another resource",
        )
    scope = _scope(parameters.get("scope", ""), client, known, response_type, returns)
    return AuthorizationRequest(
        client_id=client.id,
        response_type=response_type,
        returns=returns,
        scope=scope,
        code_challenge=check_challenge(
            parameters.get("code_challenge"),
            parameters.get("code_challenge_method"),
            needed=response_type.has_code and client.needs_pkce,
        ),
        nonce=_nonce(parameters.get("nonce", ""), response_type),
        prompt=_prompt(parameters.get("prompt", "")),
        max_age=_max_age(parameters.get("max_age"), client),
        login_hint=_login_hint(parameters.get("login_hint", "")),
        id_token_hint=_id_token_hint(parameters.get("id_token_hint", "")),
        # Without the scope that makes it one it is no request for claims (Core section 5.5).
        claims=(
            ClaimsRequest.parse(parameters.get("claims", ""))
            if OPENID in scope
            else ClaimsRequest.EMPTY
        ),
    )


def _response_type(
    parameters: Mapping[str, str], client: Client, returns: ReturnAddress
) -> ResponseType:
    text = parameters.get("response_type")
    if text is None:
        _refuse("response_type is missing", "response_type.missing", expected="code")
    response_type = ResponseType.of(text)
    if response_type is None:
        _refuse(
            "response_type is none that this server knows; most apps want code",
            "response_type.unknown",
            ErrorCode.UNSUPPORTED_RESPONSE_TYPE,
            expected=", ".join(ResponseType),
            received="another response type",
        )
    mode = parameters.get("response_mode", returns.mode.value)
    if mode != returns.mode:
        _refuse(
            "response_mode must be fragment or form_post, or query where only a code is sent",
            "response_mode.unknown",
            expected=", ".join(each for each in ResponseMode if each.fits(response_type)),
            received="another response mode",
        )
    if not may_ask_for(client, response_type):
        _refuse(
            f"this app is not registered for the response type {response_type}",
            "response_type.forbidden",
            ErrorCode.UNAUTHORIZED_CLIENT,
            expected=", ".join(each for each in ResponseType if may_ask_for(client, each)),
            received=response_type,
        )
    return response_type


def _nonce(text: str, response_type: ResponseType) -> str:
    if not text and response_type.has_id_token:
        # Core sections 3.2.2.1 and 3.3.2.11: what binds an ID token to the request it answers.
        _refuse(
            "nonce is missing; an ID token that comes through the browser needs one",
            "nonce.missing",
            expected="a nonce",
            received="nothing",
        )
    if len(text) > LONGEST_NONCE or _CONTROL.search(text):
        _refuse(
            f"nonce must have at most {LONGEST_NONCE} characters and no control characters",
            "nonce.malformed",
            received=_size(text),
        )
    return text


def _default_scope(client: Client, allowed: Scope, *, is_named: bool) -> Scope:
    default = (client.default_scope & allowed) or allowed
    # A request that does not name its redirect URI is no sign-in (Core section 3.1.2.1).
    return default if is_named else default - _OPENID


def _scope(
    text: str,
    client: Client,
    known: Collection[str],
    response_type: ResponseType,
    returns: ReturnAddress,
) -> Scope:
    names = (client.scope - CLIENT_SCOPE).names
    allowed = Scope(tuple([name for name in names if name in known]))
    wanted = Scope.parse(text) or _default_scope(client, allowed, is_named=returns.given)
    if not wanted or not wanted <= allowed:
        _refuse(
            "scope names something that this app cannot ask a person for",
            "scope.wider",
            ErrorCode.INVALID_SCOPE,
            expected=str(allowed),
            received=str(wanted - allowed)[:_SHOWN],
        )
    if response_type.has_id_token and OPENID not in wanted:
        # Core section 3.1.2.1: without it, this is no request for an ID token.
        _refuse("an ID token needs the scope openid", "scope.openid", expected=OPENID)
    if response_type.has_code and client.may_use(GrantTypeName.REFRESH_TOKEN):
        return wanted
    # Core section 11: ignored where no refresh token can come of it.
    return (wanted - _OFFLINE) or wanted


def _prompt(text: str) -> frozenset[Prompt]:
    if not text:
        return frozenset()
    try:
        prompt = frozenset(Prompt(name) for name in text.split(" ", len(Prompt)))
    except ValueError:
        _refuse(
            "prompt must be none, login, consent or select_account",
            "prompt.unknown",
            received="another prompt",
        )
    if Prompt.NONE in prompt and len(prompt) > 1:
        _refuse("prompt=none cannot be combined with another prompt", "prompt.none")
    return prompt


def _max_age(text: str | None, client: Client) -> Lifetime | None:
    if text is None:
        default = client.openid.default_max_age
        return None if default is None else Lifetime(default)
    if _SECONDS.fullmatch(text) is None:
        _refuse("max_age must be a whole number of seconds", "max_age.malformed")
    return Lifetime(int(text))


def _login_hint(text: str) -> str:
    if len(text) > _LONGEST_HINT or _CONTROL.search(text):
        _refuse(
            f"login_hint must have at most {_LONGEST_HINT} characters and no control characters",
            "login_hint.malformed",
            received=_size(text),
        )
    return text


def _id_token_hint(text: str) -> str:
    if len(text) > LONGEST_HINT:
        _refuse(
            f"id_token_hint has more than {LONGEST_HINT} characters",
            "id_token_hint.long",
            received=_size(text),
        )
    return text


def _refuse(
    description: str,
    check: str,
    code: ErrorCode = ErrorCode.INVALID_REQUEST,
    *,
    expected: str = "",
    received: str = "",
) -> NoReturn:
    raise Refused(Refusal(code, description, check, expected, received))


def _size(text: str) -> str:
    return f"{len(text)} characters"
