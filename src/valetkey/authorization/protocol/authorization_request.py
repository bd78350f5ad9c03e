"""The authorization request (RFC 6749 4.1.1, OpenID Connect Core 3), with PKCE (RFC 7636).

Each check reads the draft of a request and writes what it establishes into it. Their order, and
where each refusal is delivered, is in `endpoints/authorize/checks.py`.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from types import MappingProxyType
from typing import NoReturn

from msgspec import Struct

from valetkey.authorization.model.api import Api
from valetkey.authorization.model.client import Client, GrantTypeName
from valetkey.authorization.protocol.authorization_response import (
    LONGEST_STATE,
    ResponseMode,
    ResponseType,
    ReturnAddress,
    may_ask_for,
    verify_return_address,
)
from valetkey.authorization.protocol.claims import (
    OFFLINE_ACCESS,
    OPENID,
    ClaimsRequest,
    claims_of_scope,
)
from valetkey.authorization.protocol.resource import (
    exists,
    grantable,
    parse_requested,
    plain,
    wanted_at,
    with_access,
)
from valetkey.kernel.moment import Instant, Lifetime
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.scope import Scope
from valetkey.kernel.secret import from_base64url, same, to_base64url

METHOD = "S256"
"""The only supported method."""

_DIGEST = 32
_VERIFIER = re.compile(r"[A-Za-z0-9\-._~]{43,128}")


def check_challenge(challenge: str | None, method: str | None, *, needed: bool) -> str:
    """Check the code challenge of an authorization request; "" for none.

    Refused with `invalid_request` if it is `needed` and missing, if its method is not S256 (a
    missing method means `plain`), and if it cannot be a SHA-256 digest.
    """
    if not challenge:
        if needed:
            raise _refused("missing", "code_challenge is required for this client", "nothing")
        if method:
            raise _refused("alone", "code_challenge_method came without code_challenge", "nothing")
        return ""
    if method != METHOD:
        description = "code_challenge_method must be S256; without it the method would be plain"
        raise _refused("method", description, "another method" if method else "no method")
    digest = from_base64url(challenge)
    if digest is None or len(digest) != _DIGEST:
        description = "code_challenge must be the base64url of a SHA-256 digest, 43 characters"
        raise _refused("malformed", description, f"{len(challenge)} characters")
    return challenge


def matches(challenge: str, verifier: str) -> bool:
    """Return whether `challenge` was derived from `verifier`; False for a malformed verifier."""
    if _VERIFIER.fullmatch(verifier) is None:
        return False
    return same(challenge_of(verifier), challenge)


def challenge_of(verifier: str) -> str:
    """Return the S256 challenge of an ASCII verifier."""
    return to_base64url(sha256(verifier.encode("ascii")).digest())


def _refused(check: str, description: str, received: str) -> Refused:
    return Refused.because(
        ErrorCode.INVALID_REQUEST,
        description,
        f"pkce.{check}",
        "code_challenge with code_challenge_method=S256",
        received,
    )


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
    return tuple(prompt for prompt in Prompt if sign_up or prompt is not Prompt.CREATE)


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


@dataclass(slots=True)
class RequestDraft:
    """An authorization request while it is checked.

    `found_client` is the client that `client_id` names, None for none; `also` a return address
    beside its redirect URIs, "" for none; `prompts` are the supported values of `prompt`, `targets`
    the APIs that `resource` names. The other fields are set by the checks, and can be read after
    that only.
    """

    parameters: Mapping[str, str]
    found_client: Client | None
    prompts: Collection[Prompt]
    also: str = ""
    targets: tuple[Api, ...] | Refusal = ()
    client: Client = field(init=False)
    returns: ReturnAddress = field(init=False)
    response_type: ResponseType = field(init=False)
    apis: tuple[Api, ...] = field(init=False)
    scope: Scope = field(init=False)
    nonce: str = field(init=False)
    code_challenge: str = field(init=False)
    prompt: frozenset[Prompt] = field(init=False)
    max_age: Lifetime | None = field(init=False)
    login_hint: str = field(init=False)
    id_token_hint: str = field(init=False)
    claims: ClaimsRequest = field(init=False)

    def request(self) -> AuthorizationRequest:
        """Return the request once every check has passed."""
        return AuthorizationRequest(
            client_id=self.client.id,
            response_type=self.response_type,
            returns=self.returns,
            scope=self.scope,
            code_challenge=self.code_challenge,
            nonce=self.nonce,
            prompt=self.prompt,
            max_age=self.max_age,
            login_hint=self.login_hint,
            id_token_hint=self.id_token_hint,
            claims=self.claims,
            apis=self.apis,
        )


def check_client(draft: RequestDraft) -> None:
    """Require a registered client that is not disabled (RFC 6749 section 4.1.2.1)."""
    draft.client = require_client(draft.found_client)


def check_redirect_uri(draft: RequestDraft) -> None:
    """Require a registered redirect URI (RFC 6749 section 3.1.2, RFC 9700 section 2.1)."""
    draft.returns = verify_return_address(draft.parameters, draft.client, draft.also)


def check_state(draft: RequestDraft) -> None:
    """Require a state that can be returned unchanged (RFC 6749 section 4.1.2)."""
    text = draft.parameters.get("state")
    if text is not None and draft.returns.state is None:
        _refuse(
            f"state has more than {LONGEST_STATE} bytes, or line ends that a form would change",
            "state.long",
            received=_size(text),
        )


def check_unsupported(draft: RequestDraft) -> None:
    """Refuse the parameters that change the request's meaning (Core sections 3.1.2.6 and 6)."""
    for name, code in UNSUPPORTED.items():
        if name in draft.parameters:
            _refuse(f"{name} is not supported", f"{name}.unsupported", code)


def check_response_type(draft: RequestDraft) -> None:
    """Require a registered response type (RFC 6749 section 3.1.1)."""
    text = draft.parameters.get("response_type")
    if text is None:
        _refuse("response_type is missing", "response_type.missing", expected="code")
    response_type = ResponseType.parse(text)
    if response_type is None:
        _refuse(
            "response_type is none that this server knows; most apps want code",
            "response_type.unknown",
            ErrorCode.UNSUPPORTED_RESPONSE_TYPE,
            expected=", ".join(ResponseType),
            received="another response type",
        )
    draft.response_type = response_type


def check_response_mode(draft: RequestDraft) -> None:
    """Require a response mode that the response type allows (Multiple Response Types 2.1)."""
    mode = draft.parameters.get("response_mode", draft.returns.mode.value)
    if mode != draft.returns.mode:
        modes = (mode for mode in ResponseMode if mode.fits(draft.response_type))
        _refuse(
            "response_mode must be fragment or form_post, or query where only a code is sent",
            "response_mode.unknown",
            expected=", ".join(modes),
            received="another response mode",
        )


def check_permitted_type(draft: RequestDraft) -> None:
    """Require a response type that the client registered for (OpenID Registration section 2)."""
    client, response_type = draft.client, draft.response_type
    if not may_ask_for(client, response_type):
        _refuse(
            f"this app is not registered for the response type {response_type}",
            "response_type.forbidden",
            ErrorCode.UNAUTHORIZED_CLIENT,
            expected=", ".join(name for name in ResponseType if may_ask_for(client, name)),
            received=response_type,
        )


def check_resource(draft: RequestDraft) -> None:
    """Require APIs that exist and that this client may ask for (RFC 8707 section 2.1)."""
    if isinstance(draft.targets, Refusal):
        raise Refused(draft.targets)
    draft.apis = draft.targets


def check_scope(draft: RequestDraft) -> None:
    """Require a scope that users can allow this client (RFC 6749 section 3.3)."""
    # `redirect_uri` is required in an OpenID Connect request (Core section 3.1.2.1).
    not_by_default = _NOTHING if draft.returns.redirect_uri_given else _OPENID
    text = draft.parameters.get("scope", "")
    draft.scope = requested_scope(text, draft.client, draft.apis, not_by_default)


def check_openid_scope(draft: RequestDraft) -> None:
    """Require `openid` in a request for an ID token (Core section 3.1.2.1)."""
    if draft.response_type.has_id_token and OPENID not in draft.scope:
        _refuse("an ID token needs the scope openid", "scope.openid", expected=OPENID)


def check_offline_access(draft: RequestDraft) -> None:
    """Ignore `offline_access` where no refresh token can be issued (Core section 11)."""
    if draft.response_type.has_code and draft.client.may_use(GrantTypeName.REFRESH_TOKEN):
        return
    draft.scope = (draft.scope - _OFFLINE) or draft.scope


def check_nonce(draft: RequestDraft) -> None:
    """Require a nonce that binds the ID token to the request (Core 3.2.2.1 and 3.3.2.11)."""
    text = draft.parameters.get("nonce", "")
    if not text and draft.response_type.has_id_token:
        _refuse(
            "nonce is missing; an ID token that comes through the browser needs one",
            "nonce.missing",
            expected="a nonce",
            received="nothing",
        )
    draft.nonce = _bounded("nonce", text, LONGEST_NONCE)


def check_pkce(draft: RequestDraft) -> None:
    """Require a code challenge where the client needs one (RFC 7636 section 4.4.1)."""
    # A confidential client may bind the code by `nonce` instead (RFC 9700 section 2.1.1).
    unbound = draft.client.profile.pkce_or_nonce and not (draft.nonce and OPENID in draft.scope)
    draft.code_challenge = check_challenge(
        draft.parameters.get("code_challenge"),
        draft.parameters.get("code_challenge_method"),
        needed=draft.response_type.has_code and (draft.client.needs_pkce or unbound),
    )


def check_prompt(draft: RequestDraft) -> None:
    """Require supported prompts, `none` by itself (Core section 3.1.2.1)."""
    text = draft.parameters.get("prompt", "")
    names = frozenset(text.split(" ", len(Prompt))) if text else frozenset[str]()
    if not names.issubset(draft.prompts):
        _refuse(
            f"prompt must be one of {', '.join(draft.prompts)}",
            "prompt.unknown",
            expected=" ".join(draft.prompts),
            received="another prompt",
        )
    draft.prompt = frozenset(Prompt(name) for name in names)
    if Prompt.NONE in draft.prompt and len(draft.prompt) > 1:
        _refuse("prompt=none cannot be combined with another prompt", "prompt.none")


def check_max_age(draft: RequestDraft) -> None:
    """Require a number of seconds; by default the client's `default_max_age` (Core 3.1.2.1)."""
    text, default = draft.parameters.get("max_age"), draft.client.openid.default_max_age
    if text is None:
        draft.max_age = None if default is None else Lifetime(default)
        return
    if _SECONDS.fullmatch(text) is None:
        _refuse("max_age must be a whole number of seconds", "max_age.malformed")
    draft.max_age = Lifetime(int(text))


def check_login_hint(draft: RequestDraft) -> None:
    """Bound what the sign-in page is filled in with (Core section 3.1.2.1)."""
    text = draft.parameters.get("login_hint", "")
    draft.login_hint = _bounded("login_hint", text, _LONGEST_HINT)


def check_id_token_hint(draft: RequestDraft) -> None:
    """Bound the ID token that says which user is meant (Core section 3.1.2.1)."""
    text = draft.parameters.get("id_token_hint", "")
    if len(text) > LONGEST_HINT:
        _refuse(
            f"id_token_hint has more than {LONGEST_HINT} characters",
            "id_token_hint.long",
            received=_size(text),
        )
    draft.id_token_hint = text


def check_claims(draft: RequestDraft) -> None:
    """Parse `claims`, which applies to requests with the `openid` scope only (Core 5.5)."""
    text = draft.parameters.get("claims", "") if OPENID in draft.scope else ""
    draft.claims = ClaimsRequest.parse(text)


def requested_scope(
    text: str, client: Client, apis: Sequence[Api], not_by_default: Scope = _NOTHING
) -> Scope:
    """Return what a request with this `scope` asks a user for, in the form that grants store.

    Without `scope`, the client's default and everything at the APIs. Refused with `invalid_scope`.
    """
    allowed = grantable(client, apis)
    scope = wanted_at(parse_requested(text), apis)
    if not scope:
        # Clients register no default for APIs.
        default = (client.default_scope & allowed) or allowed
        default |= Scope(tuple([name for name in allowed if "#" in name]))
        scope = default - not_by_default
    scope = with_access(scope, apis)
    if OPENID in scope and not scope <= allowed:
        # Core section 3.1.2.1: names that no scope has are ignored; the response's `scope` tells.
        scope = Scope(tuple([name for name in scope if name in allowed or exists(name, apis)]))
    if not scope or not scope <= allowed:
        _refuse(
            "scope contains a scope that this app cannot request from users",
            "scope.wider",
            ErrorCode.INVALID_SCOPE,
            expected=str(plain(allowed)),
            received=str(scope - allowed)[:_SHOWN],
        )
    return scope


def _refuse(
    description: str,
    check: str,
    code: ErrorCode = ErrorCode.INVALID_REQUEST,
    *,
    expected: str = "",
    received: str = "",
) -> NoReturn:
    raise Refused.because(code, description, check, expected, received)


def _bounded(name: str, text: str, longest: int) -> str:
    if len(text) > longest or _CONTROL.search(text):
        _refuse(
            f"{name} must have at most {longest} characters and no control characters",
            f"{name}.malformed",
            received=_size(text),
        )
    return text


def _size(text: str) -> str:
    return f"{len(text)} characters"
