"""Parameters and tokens as the steps of the flow show them, with secrets shortened."""

from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

from valetkey.authorization.actions.developer.failures import plain_reference
from valetkey.authorization.actions.developer.trial import claims_in, shortened
from valetkey.authorization.site.developer.app import AppHead

_SECRET = frozenset({"code", "state", "code_verifier", "client_secret"})


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter or member of a message; `value` is shortened where it is a secret."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Token:
    """One token of a response: its beginning, and its claims, "" for an opaque one."""

    name: str
    value: str
    claims: str = ""


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


def shown_token(name: str, value: object) -> Token:
    """A token as it is shown: its beginning and its claims."""
    text = str(value)
    return Token(name, shortened(text), claims_in(text) if name != "refresh_token" else "")


def explained_at(head: AppHead, error_uri: object) -> str:
    """The page about the failed request that an `error_uri` refers to; "" for none."""
    told = parameters_in(error_uri) if isinstance(error_uri, str) else {}
    reference = plain_reference(told.get("reference", ""))
    return f"{head.at('failures')}/{reference}" if reference else ""
