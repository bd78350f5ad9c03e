"""What the steps of the flow choose from, send and show, with secrets shortened."""

from urllib.parse import parse_qsl, urlsplit

from msgspec import Struct

from valetkey.authorization.actions.developer.requests import plain_reference
from valetkey.authorization.actions.developer.trial import claims_in, shortened
from valetkey.authorization.model.register.client import Client
from valetkey.authorization.site.developer.app import AppHead, AppRequest
from valetkey.authorization.storage.transaction import Transaction
from valetkey.web.exchange import Headers, Request

_APIS = 100
_SECRET = frozenset({"code", "state", "code_verifier", "client_secret"})


class ApiChoice(Struct, frozen=True):
    """An API that can be chosen; `scopes` are their values in the form, and their names."""

    identifier: str
    name: str
    scopes: tuple[tuple[str, str], ...]


class Parameter(Struct, frozen=True):
    """One parameter or member of a message; `value` is shortened where it is a secret."""

    name: str
    value: str


class Token(Struct, frozen=True):
    """One token of a response: its beginning, and its claims, "" for an opaque one."""

    name: str
    value: str
    claims: str = ""
    #: The API that an access token is for.
    audience: str = ""


def apis_of(tx: Transaction, client: Client) -> tuple[ApiChoice, ...]:
    """Return the declared APIs that the client may ask for, by identifier, at most 100."""
    return tuple(
        ApiChoice(
            api.identifier, api.name, tuple((api.qualified(name), name) for name in api.scopes)
        )
        for api in tx.apis.page("", _APIS)
        if api.admits(client)
    )


def parameters_in(landed: str) -> dict[str, str]:
    """Return the query parameters of a pasted URL; none of them is trusted."""
    try:
        query = urlsplit(landed.strip()).query
        return dict(parse_qsl(query, strict_parsing=True, errors="strict", max_num_fields=50))
    except ValueError:
        return {}


def masked(name: str, value: str) -> str:
    """The value as it is shown: shortened where the parameter is a secret."""
    return shortened(value) if name in _SECRET else value


def shown_token(name: str, value: object, audience: str) -> Token:
    """A token as it is shown: its beginning and its claims, and of an access token its API."""
    text = str(value)
    claims = claims_in(text) if name != "refresh_token" else ""
    return Token(name, shortened(text), claims, audience if name == "access_token" else "")


def explained_at(head: AppHead, error_uri: object) -> str:
    """The page about the failed request that an `error_uri` refers to; "" for none."""
    told = parameters_in(error_uri) if isinstance(error_uri, str) else {}
    reference = plain_reference(told.get("reference", ""))
    return f"{head.at('failures')}/{reference}" if reference else ""


def sent_by(
    request: AppRequest,
    method: str,
    path: str,
    headers: tuple[tuple[bytes, bytes], ...],
    body: bytes = b"",
) -> Request:
    """A request of the same origin to another endpoint of this server."""
    came = request.request
    return Request(
        method,
        path,
        headers=Headers(headers),
        body=body,
        address=came.address,
        secure=came.secure,
        at=came.at,
    )
