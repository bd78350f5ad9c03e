"""The answer to an authorization request: where it may go, and what it says.

RFC 6749 sections 4.1.2 and 4.2.2, with the issuer of RFC 9207 in every answer; by query, fragment
or form (OAuth Form Post Response Mode).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

from valetkey.authorization.model.register.client import Client
from valetkey.authorization.protocol.claims import OPENID
from valetkey.authorization.protocol.response_type import ResponseMode, mode_of_answer
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.url import append_query, with_fragment

Pairs = tuple[tuple[str, str], ...]
"""The parameters of an answer, in the order they are sent."""

LONGEST_STATE = 2_048
"""Bytes in a state."""

_SHOWN = 200
# A form turns every line end into CR LF, and HTML has no way to write a NUL.
_UNPOSTABLE = re.compile(r"[\x00\r\n]")


@dataclass(frozen=True, slots=True)
class ReturnAddress:
    """Where the answer may go: one of the client's own redirect URIs, and what comes along.

    `given` says whether the request named it. `state` is None where there was none, or one that
    cannot be returned as it was: too long, or with line ends for a form.
    """

    redirect_uri: str
    given: bool
    mode: ResponseMode
    state: str | None


def prove(parameters: Mapping[str, str], client: Client, also: str = "") -> ReturnAddress:
    """Where the answer to this request may go: where the client registered, or `also` there.

    Refused with `invalid_request` for a redirect URI that is not registered. Nothing may be
    redirected then.
    """
    mode = mode_of_answer(parameters.get("response_type", ""), parameters.get("response_mode"))
    state = parameters.get("state") or None
    if state is not None and not _can_return(state, mode):
        state = None
    presented = parameters.get("redirect_uri")
    if presented is None:
        # A sign-in must name it (OpenID Connect Core 3.1.2.1); else the only one is meant.
        is_openid = OPENID in parameters.get("scope", "").split(" ")
        if len(client.redirect_uris) == 1 and not is_openid:
            return ReturnAddress(client.redirect_uris[0], False, mode, state)
        _unproven("redirect_uri is missing", "redirect_uri.missing", client, "nothing")
    if not (also and presented == also) and not client.registered_redirect_uri(presented):
        # Without query and fragment: what a mistaken client put there may be a secret.
        shown = ascii(re.split("[?#]", presented)[0][:_SHOWN])
        _unproven(
            "redirect_uri is not registered for this app", "redirect_uri.unknown", client, shown
        )
    return ReturnAddress(presented, True, mode, state)


def answer(returns: ReturnAddress, issuer: str, pairs: Pairs) -> Pairs:
    """The `pairs`, the client's state and the issuer."""
    state = () if returns.state is None else (("state", returns.state),)
    return (*pairs, *state, ("iss", issuer))


def error_answer(returns: ReturnAddress, issuer: str, refusal: Refusal, reference: str) -> Pairs:
    """The refusal: its code, its words, the page that explains it; state and issuer.

    With `reference` that page leads the app's team to what exactly was wrong.
    """
    pairs = (
        ("error", refusal.code.value),
        ("error_description", refusal.description),
        ("error_uri", explained_at(issuer, refusal.code, reference)),
    )
    return answer(returns, issuer, pairs)


def explained_at(issuer: str, code: ErrorCode, reference: str) -> str:
    """The page that explains a refusal, and leads the team of its app to the record of it."""
    return f"{issuer}/errors/{code.value}?reference={reference}"


def redirect_to(returns: ReturnAddress, pairs: Pairs) -> str:
    """The redirect URI with `pairs` in its fragment or its query, as the mode says."""
    if returns.mode is ResponseMode.FRAGMENT:
        return with_fragment(returns.redirect_uri, pairs)
    # A browser gives the fragment of the address it comes from to a redirect that has none, so
    # whoever opened our page with one could plant it at the client. An empty fragment prevents
    # that; `#_` would too, but apps that look at their fragment would see it.
    return append_query(returns.redirect_uri, pairs) + "#"


def _can_return(state: str, mode: ResponseMode) -> bool:
    if mode is ResponseMode.FORM_POST and _UNPOSTABLE.search(state):
        return False
    return len(state.encode()) <= LONGEST_STATE


def _unproven(description: str, check: str, client: Client, received: str) -> NoReturn:
    registered = f"one of the redirect URIs of {client.id}: {', '.join(client.redirect_uris)}"
    raise Refused(
        Refusal(
            ErrorCode.INVALID_REQUEST,
            description,
            check,
            registered[:2_000],
            received,
            about=client.id,
        )
    )
