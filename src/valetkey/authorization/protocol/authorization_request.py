"""The authorization request: what a client may ask for (RFC 6749 4.1.1, OpenID Connect Core 3).

Checked in two steps, because their refusals are delivered differently. `require_client` and
`verify_return_address` establish the return address (see authorization_response); what they refuse
is shown to the user and never redirected. `parse` checks the rest; its refusals are returned to the
client.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import NoReturn

from msgspec import Struct

from valetkey.authorization.model.register.api import Api
from valetkey.authorization.model.register.client import Client, GrantTypeName
from valetkey.authorization.protocol.authorization_response import LONGEST_STATE, ReturnAddress
from valetkey.authorization.protocol.claims import (
    OFFLINE_ACCESS,
    OPENID,
    ClaimsRequest,
    claims_of_scope,
)
from valetkey.authorization.protocol.pkce import check_challenge
from valetkey.authorization.protocol.resource import (
    exists,
    grantable,
    parse_requested,
    plain,
    wanted_at,
    with_access,
)
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
"""Parameters that affect the response or the pages; others are ignored (RFC 6749 section 3.1).

`display` and `claims_locales` are ignored because there is one kind of page, `acr_values` because
the class of every sign-in is reported anyway.
"""

UNSUPPORTED: Mapping[str, ErrorCode] = MappingProxyType(
    {
        "request": ErrorCode.REQUEST_NOT_SUPPORTED,
        "request_uri": ErrorCode.REQUEST_URI_NOT_SUPPORTED,
        "registration": ErrorCode.REGISTRATION_NOT_SUPPORTED,
    }
)
"""Parameters that are refused, because ignoring them would answer a different question."""

UI_LOCALES = "ui_locales"
_LONGEST_WISH = 200
"""Maximum length of `ui_locales`; a longer value is ignored, never refused."""

LONGEST_NONCE = 512
_LONGEST_HINT = 320
_LONGEST_CLIENT_ID = 200
_SHOWN = 200

LONGEST_HINT = 6_000
"""Maximum length of an `id_token_hint`."""

_OFFLINE = Scope.of(OFFLINE_ACCESS)
_OPENID = Scope.of(OPENID)
_NOTHING = Scope()
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_CLIENT_ID = re.compile(r"[\x20-\x7e]+")
_SECONDS = re.compile(r"[0-9]{1,9}", re.ASCII)


class Prompt(StrEnum):
    """The `prompt` values (Core section 3.1.2.1, Initiating User Registration section 4.1)."""

    NONE = "none"
    LOGIN = "login"
    CONSENT = "consent"
    SELECT_ACCOUNT = "select_account"
    CREATE = "create"


def supported_prompts(*, sign_up: bool) -> tuple[Prompt, ...]:
    """Return the values that requests may have; `create` only where sign-up is open."""
    return tuple(each for each in Prompt if sign_up or each is not Prompt.CREATE)


class AuthorizationRequest(Struct, frozen=True):
    """A valid authorization request. `scope` has at least one scope that a user can allow.

    Its names are qualified for `apis` by `Api.qualified`; an access token is for one of them.
    """

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
    apis: tuple[Api, ...]

    @property
    def is_openid(self) -> bool:
        """Whether this is an OpenID Connect request (Core section 3.1.2.1)."""
        return OPENID in self.scope and self.response_type is not ResponseType.TOKEN

    @property
    def needed_acrs(self) -> tuple[str, ...]:
        """The `acr` values of which one is essential according to `claims`; empty for any."""
        acr = self.claims.id_token.get("acr")
        return acr.accepted if acr is not None and acr.essential else ()

    @property
    def single_claims(self) -> tuple[str, ...]:
        """The personal claims requested individually and not through a scope, sorted by name."""
        named = self.claims.names
        return tuple(sorted(named.difference(claims_of_scope(self.scope)))) if named else ()

    @property
    def may_interact(self) -> bool:
        """Whether the user may be shown a page (`prompt` is not `none`)."""
        return Prompt.NONE not in self.prompt

    def wants_fresh_sign_in(self, auth_time: Instant, now: Instant) -> bool:
        """Return whether a sign-in at that time is too old, unless it was made for this request."""
        if not self.prompt.isdisjoint({Prompt.LOGIN, Prompt.SELECT_ACCOUNT, Prompt.CREATE}):
            return True
        # Whole seconds, rounded down: otherwise `max_age` of 0 or 1 would never ask again.
        return self.max_age is not None and now - auth_time >= self.max_age


def known_parameters(parameters: Mapping[str, str]) -> dict[str, str]:
    """Return the known, non-empty parameters of the request; empty ones count as omitted."""
    return {
        name: value
        for name, value in parameters.items()
        if value
        and (name in PARAMETERS or name in UNSUPPORTED)
        and not (name == UI_LOCALES and len(value) > _LONGEST_WISH)
    }


def plausible_client_id(text: str | None) -> str | None:
    """Return the client id if it is well-formed."""
    if not text or len(text) > _LONGEST_CLIENT_ID or _CLIENT_ID.fullmatch(text) is None:
        return None
    return text


def require_client(client: Client | None) -> Client:
    """Return the client. An unknown and a disabled one get the same `invalid_request`."""
    if client is None or client.disabled_at is not None:
        # The decision record may tell the two apart, the page must not.
        received = "no client has that id" if client is None else "a disabled client"
        raise Refused.because(
            ErrorCode.INVALID_REQUEST,
            "client_id names no app that is registered here",
            "authorize.client",
            "a registered client",
            received,
        )
    return client


def parse(
    parameters: Mapping[str, str],
    client: Client,
    returns: ReturnAddress,
    apis: tuple[Api, ...] | Refusal,
    prompts: Collection[Prompt],
) -> AuthorizationRequest:
    """Parse the request and check it against the client's registration.

    `apis` are those that its `resource` names, `prompts` the supported values of `prompt`. Raises
    Refused with the error code for the client.
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
    if isinstance(apis, Refusal):
        raise Refused(apis)
    scope = _scope(parameters.get("scope", ""), client, apis, response_type, returns)
    nonce = _nonce(parameters.get("nonce", ""), response_type)
    # A confidential client may bind the code by `nonce` instead (RFC 9700 section 2.1.1).
    unbound = client.profile.pkce_or_nonce and not (nonce and OPENID in scope)
    return AuthorizationRequest(
        client_id=client.id,
        response_type=response_type,
        returns=returns,
        scope=scope,
        code_challenge=check_challenge(
            parameters.get("code_challenge"),
            parameters.get("code_challenge_method"),
            needed=response_type.has_code and (client.needs_pkce or unbound),
        ),
        nonce=nonce,
        prompt=_prompt(parameters.get("prompt", ""), prompts),
        max_age=_max_age(parameters.get("max_age"), client),
        login_hint=_login_hint(parameters.get("login_hint", "")),
        id_token_hint=_id_token_hint(parameters.get("id_token_hint", "")),
        # Without the `openid` scope the `claims` parameter does not apply (Core section 5.5).
        claims=(
            ClaimsRequest.parse(parameters.get("claims", ""))
            if OPENID in scope
            else ClaimsRequest.EMPTY
        ),
        apis=apis,
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
        # `nonce` binds the ID token to the request (Core sections 3.2.2.1 and 3.3.2.11).
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


def requested_scope(
    text: str, client: Client, apis: Sequence[Api], not_by_default: Scope = _NOTHING
) -> Scope:
    """Return what a request with this `scope` asks a user for, in the form that grants store.

    Without `scope`, the client's default and everything at the APIs. Refused with `invalid_scope`.
    """
    allowed = grantable(client, apis)
    wanted = wanted_at(parse_requested(text), apis)
    if not wanted:
        # Clients register no default for APIs.
        default = (client.default_scope & allowed) or allowed
        default |= Scope(tuple([name for name in allowed if "#" in name]))
        wanted = default - not_by_default
    wanted = with_access(wanted, apis)
    if OPENID in wanted and not wanted <= allowed:
        # Core section 3.1.2.1: names that no scope has are ignored; the response's `scope` tells.
        wanted = Scope(tuple([name for name in wanted if name in allowed or exists(name, apis)]))
    if not wanted or not wanted <= allowed:
        _refuse(
            "scope contains a scope that this app cannot request from users",
            "scope.wider",
            ErrorCode.INVALID_SCOPE,
            expected=str(plain(allowed)),
            received=str(wanted - allowed)[:_SHOWN],
        )
    return wanted


def _scope(
    text: str,
    client: Client,
    apis: tuple[Api, ...],
    response_type: ResponseType,
    returns: ReturnAddress,
) -> Scope:
    # `redirect_uri` is required in an OpenID Connect request (Core section 3.1.2.1).
    wanted = requested_scope(text, client, apis, _NOTHING if returns.given else _OPENID)
    if response_type.has_id_token and OPENID not in wanted:
        # Without `openid` this is not a request for an ID token (Core section 3.1.2.1).
        _refuse("an ID token needs the scope openid", "scope.openid", expected=OPENID)
    if response_type.has_code and client.may_use(GrantTypeName.REFRESH_TOKEN):
        return wanted
    # Core section 11: ignored where no refresh token can be issued.
    return (wanted - _OFFLINE) or wanted


def _prompt(text: str, supported: Collection[Prompt]) -> frozenset[Prompt]:
    if not text:
        return frozenset()
    names = frozenset(text.split(" ", len(Prompt)))
    if not names.issubset(supported):
        _refuse(
            f"prompt must be one of {', '.join(supported)}",
            "prompt.unknown",
            expected=" ".join(supported),
            received="another prompt",
        )
    prompt = frozenset(Prompt(name) for name in names)
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
    raise Refused.because(code, description, check, expected, received)


def _size(text: str) -> str:
    return f"{len(text)} characters"
