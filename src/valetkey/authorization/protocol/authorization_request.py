"""The authorization request: what a client may ask for (RFC 6749 4.1.1 and 4.2.1, RFC 9700 2.1).

In two steps, because they are refused differently. `require_client` and `prove` find out where the
answer may go; what they refuse is told to the person and never to any address. `parse` judges the
rest; what it refuses is told to the client.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NoReturn

from valetkey.authorization.model.register.client import CLIENT_SCOPE, Client, GrantTypeName
from valetkey.authorization.protocol.pkce import check_challenge
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
    "resource",
    "code_challenge",
    "code_challenge_method",
)
"""What is understood; any other parameter is ignored (RFC 6749 section 3.1)."""

UNSUPPORTED = ("request", "request_uri", "registration", "id_token_hint")
"""What is refused, because ignoring it would answer another question than the one asked."""

LONGEST_STATE = 2_048
LONGEST_NONCE = 512
_LONGEST_HINT = 320
_LONGEST_CLIENT_ID = 200
_SHOWN = 200

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_CLIENT_ID = re.compile(r"[\x20-\x7e]+")
_SECONDS = re.compile(r"[0-9]{1,9}", re.ASCII)


class ResponseType(StrEnum):
    """What the client wants sent back."""

    CODE = "code"
    TOKEN = "token"  # the implicit grant


class Prompt(StrEnum):
    """What the person must, or must not, be asked (OpenID Connect Core section 3.1.2.1)."""

    NONE = "none"
    LOGIN = "login"
    CONSENT = "consent"
    SELECT_ACCOUNT = "select_account"


_GRANT_TYPE = {
    ResponseType.CODE: GrantTypeName.AUTHORIZATION_CODE,
    ResponseType.TOKEN: GrantTypeName.IMPLICIT,
}
_MODE = {ResponseType.CODE: "query", ResponseType.TOKEN: "fragment"}


@dataclass(frozen=True, slots=True)
class ReturnAddress:
    """Where the answer may go: one of the client's own redirect URIs, and what comes along.

    `given` says whether the request named it. `state` is None where there was none, or one that
    is too long to be returned.
    """

    redirect_uri: str
    given: bool
    in_fragment: bool
    state: str | None


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

    @property
    def may_interact(self) -> bool:
        """Whether a person may be asked anything."""
        return Prompt.NONE not in self.prompt

    def wants_fresh_sign_in(self, auth_time: Instant, now: Instant) -> bool:
        """Whether a sign-in of that time is not enough, unless it was made for this request."""
        if Prompt.LOGIN in self.prompt or Prompt.SELECT_ACCOUNT in self.prompt:
            return True
        return self.max_age is not None and now - auth_time > self.max_age


def understood(parameters: Mapping[str, str]) -> dict[str, str]:
    """What the request says, without what is ignored; an empty value counts as none.

    An empty redirect URI stays: it is not a redirect URI that was left out.
    """
    return {
        name: value
        for name, value in parameters.items()
        if (name in PARAMETERS or name in UNSUPPORTED) and (value or name == "redirect_uri")
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


def prove(parameters: Mapping[str, str], client: Client) -> ReturnAddress:
    """Where the answer to this request may go.

    Refused with `invalid_request` for a redirect URI that is not registered. Nothing may be
    redirected then.
    """
    text = parameters.get("state")
    state = text if text and len(text.encode()) <= LONGEST_STATE else None
    in_fragment = parameters.get("response_type") == ResponseType.TOKEN
    presented = parameters.get("redirect_uri")
    if presented is None:
        if len(client.redirect_uris) == 1:
            return ReturnAddress(client.redirect_uris[0], False, in_fragment, state)
        _unproven("redirect_uri is missing", "redirect_uri.missing", client, "nothing")
    if not client.registered_redirect_uri(presented):
        # Without query and fragment: what a mistaken client put there may be a secret.
        shown = ascii(re.split("[?#]", presented)[0][:_SHOWN])
        _unproven(
            "redirect_uri is not registered for this app", "redirect_uri.unknown", client, shown
        )
    return ReturnAddress(presented, True, in_fragment, state)


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
        _refuse(f"state has more than {LONGEST_STATE} bytes", "state.long", received=_size(text))
    for name in UNSUPPORTED:
        if name in parameters:
            _refuse(f"{name} is not supported", f"{name}.unsupported")
    response_type = _response_type(parameters, client)
    nonce = parameters.get("nonce", "")
    if len(nonce) > LONGEST_NONCE or _CONTROL.search(nonce):
        _refuse(
            f"nonce must have at most {LONGEST_NONCE} characters and no control characters",
            "nonce.malformed",
            received=_size(nonce),
        )
    if parameters.get("resource", resource) != resource:
        _refuse(
            "tokens of this server are not for that resource",
            "resource.unknown",
            ErrorCode.INVALID_TARGET,
            expected=resource,
            received="another resource",
        )
    needs_challenge = response_type is ResponseType.CODE and client.needs_pkce
    return AuthorizationRequest(
        client_id=client.id,
        response_type=response_type,
        returns=returns,
        scope=_scope(parameters.get("scope", ""), client, known),
        code_challenge=check_challenge(
            parameters.get("code_challenge"),
            parameters.get("code_challenge_method"),
            needed=needs_challenge,
        ),
        nonce=nonce,
        prompt=_prompt(parameters.get("prompt", "")),
        max_age=_max_age(parameters.get("max_age")),
        login_hint=_login_hint(parameters.get("login_hint", "")),
    )


def _response_type(parameters: Mapping[str, str], client: Client) -> ResponseType:
    text = parameters.get("response_type")
    if text is None:
        _refuse("response_type is missing", "response_type.missing", expected="code")
    try:
        response_type = ResponseType(text)
    except ValueError:
        _refuse(
            "response_type must be code, or token where the app may use the implicit grant",
            "response_type.unknown",
            ErrorCode.UNSUPPORTED_RESPONSE_TYPE,
            expected="code or token",
            received="another response type",
        )
    mode = parameters.get("response_mode", _MODE[response_type])
    if mode != _MODE[response_type]:
        _refuse(
            "response_mode must be query for code and fragment for token, or be left out",
            "response_mode.unknown",
            expected=_MODE[response_type],
            received="another response mode",
        )
    grant_type = _GRANT_TYPE[response_type]
    if not client.may_use(grant_type):
        _refuse(
            f"this app is not registered for the grant type {grant_type}",
            "response_type.forbidden",
            ErrorCode.UNAUTHORIZED_CLIENT,
            expected=", ".join(sorted(client.grant_types)),
            received=grant_type,
        )
    return response_type


def _scope(text: str, client: Client, known: Collection[str]) -> Scope:
    allowed = Scope(tuple(name for name in client.scope - CLIENT_SCOPE if name in known))
    wanted = Scope.parse(text) or ((client.default_scope & allowed) or allowed)
    if not wanted or not wanted <= allowed:
        _refuse(
            "scope names something that this app cannot ask a person for",
            "scope.wider",
            ErrorCode.INVALID_SCOPE,
            expected=str(allowed),
            received=str(wanted - allowed)[:_SHOWN],
        )
    return wanted


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


def _max_age(text: str | None) -> Lifetime | None:
    if text is None:
        return None
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


def _unproven(description: str, check: str, client: Client, received: str) -> NoReturn:
    registered = f"one of the redirect URIs of {client.id}: {', '.join(client.redirect_uris)}"
    raise Refused(
        Refusal(ErrorCode.INVALID_REQUEST, description, check, registered[:2_000], received)
    )


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
