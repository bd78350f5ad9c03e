"""Resource indicators: which API a request names, and what is granted at each (RFC 8707)."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from msgspec import Struct

from valetkey.authorization.model.api import Api, unqualified
from valetkey.authorization.model.client import CLIENT_SCOPE, Client
from valetkey.authorization.protocol.claims import IDENTITY_SCOPES, OPENID
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.scope import Scope
from valetkey.kernel.text import translatable
from valetkey.kernel.url import canonical, parse_url

RESOURCE = "resource"
"""The parameter, at the authorization endpoint and at the token endpoint."""

AUDIENCE = "audience"
"""The parameter that names an API in its place, where `tokens.audience_parameter` permits it."""

MOST = 10
"""Maximum number of APIs in one authorization request."""

LONGEST = 500
"""Maximum number of characters in an identifier."""

_SEPARATOR = " "
_NO_SPACE = "\N{REPLACEMENT CHARACTER}"
_SHOWN = 10
_ACCESS = translatable("use this API on your behalf")


def joined(values: Iterable[str]) -> str:
    """Return the values of a repeated `resource` parameter as one text.

    No identifier contains a space; a value with one becomes a text that names nothing.
    """
    return _SEPARATOR.join(value.replace(_SEPARATOR, _NO_SPACE) for value in values if value)


def with_audience(resources: Iterable[str], audience: str | None) -> Sequence[str]:
    """Return the identifiers in `resource` and `audience`, each API once."""
    named = {
        canonical(identifier): identifier for identifier in (*resources, *filter(None, [audience]))
    }
    return tuple(named.values())


def split(text: str) -> tuple[str, ...]:
    """Return the values that `joined` joined, each once."""
    return tuple(dict.fromkeys(text.split(_SEPARATOR))) if text else ()


def identifier_fault(identifier: str) -> str:
    """Return why the text cannot identify an API; "" if it can."""
    web = parse_url(identifier) if len(identifier) <= LONGEST else None
    if web is None or (web.scheme == "http" and not web.is_loopback()):
        return (
            f"an absolute https URL in lower case of at most {LONGEST} characters, or http on "
            "127.0.0.1, [::1] or localhost, without user name and fragment"
        )
    return ""


def wrong_target(received: str, identifiers: Sequence[str]) -> Refusal:
    """Return the refusal of an API that does not exist or that the client may not ask for.

    `identifiers` are those that exist; they go into the decision record, not to the client.
    """
    listed = ", ".join(identifiers[:_SHOWN]) + (", …" if len(identifiers) > _SHOWN else "")
    return Refusal(
        ErrorCode.INVALID_TARGET,
        "resource names no API that this client may ask for",
        "resource.unknown",
        listed,
        received[:LONGEST].replace(_NO_SPACE, _SEPARATOR),
    )


def too_many_targets(most: int) -> Refusal:
    """Return the refusal of more APIs than one request may name."""
    return Refusal(
        ErrorCode.INVALID_TARGET,
        f"resource may be sent {most} times at most"
        if most > 1
        else "an access token is for one API: send resource once",
        "resource.several",
        f"at most {most}",
        "more",
    )


def choose(resources: Sequence[str], among: Sequence[Api]) -> Api | Refusal:
    """Return the API of one token: the one that is named, or the first.

    `among` are the APIs for which there is something to issue.
    """
    named = [resource for resource in resources if resource]
    if len(named) > 1:
        return too_many_targets(1)
    if len(among) == 1 and not named:
        return among[0]
    if not among:
        return Refusal(
            ErrorCode.INVALID_TARGET,
            "the API was disabled or removed, or this client can no longer get tokens for it",
            "resource.ended",
            "an API that is enabled",
            "none",
        )
    if not named:
        return among[0]
    key = canonical(named[0])
    target = next((api for api in among if canonical(api.identifier) == key), None)
    return target or wrong_target(named[0], [api.identifier for api in among])


def grantable(client: Client, apis: Sequence[Api]) -> Scope:
    """Return what users can allow the client at these APIs, in the form that grants store.

    At the default API that is what the client is registered for, at others everything they declare:
    which client may ask there is the API's decision.
    """
    registered = client.scope - CLIENT_SCOPE
    scopes: Mapping[str, str] = {}
    for api in apis:
        if api.is_default:
            scopes = api.scopes
    names = [name for name in registered if name in scopes or name in IDENTITY_SCOPES]
    for api in apis:
        if api.id:
            names += [api.access, *[api.qualified(name) for name in api.scopes]]
    return Scope(tuple(names))


def with_access(scope: Scope, apis: Sequence[Api]) -> Scope:
    """Return a requested scope that has something at each of the APIs a token is requested for.

    Users allow each API by its scopes; where none is requested, they are asked for the API itself.
    """
    others = [api for api in apis if api.id]
    if not others:
        return scope
    owned = [(name, *unqualified(name)) for name in scope.names]
    names = [name for name, _, scope_name in owned if scope_name]
    at = {owner for _, owner, scope_name in owned if scope_name}
    bare = [api.access for api in others if api.id not in at]
    return scope if len(names) == len(owned) and not bare else Scope((*names, *bare))


def covers(allowed: Scope, requested: Scope) -> bool:
    """Return whether a consent to `allowed` includes `wanted`.

    A consent to one of an API's scopes includes the API itself.
    """
    if requested <= allowed:
        return True
    at = {unqualified(name)[0] for name in allowed}
    owned = ((name, *unqualified(name)) for name in requested.names)
    return all(name in allowed or (not scope_name and api in at) for name, api, scope_name in owned)


def parse_requested(text: str) -> Scope:
    """Return the scope of a request. Names with `#` are those of grants, unknown to clients.

    With `openid` they are ignored like every unknown name (OpenID Connect Core section 3.1.2.1);
    refused with `invalid_scope` otherwise.
    """
    scope = Scope.parse(text)
    plain_scope = Scope(tuple([name for name in scope if "#" not in name]))
    if plain_scope != scope and OPENID not in scope:
        raise Refused.because(
            ErrorCode.INVALID_SCOPE,
            "scope contains an unknown scope",
            "scope.wider",
            "scopes without #",
            str(scope - plain_scope)[:200],
        )
    return plain_scope


def wanted_at(scope: Scope, apis: Sequence[Api]) -> Scope:
    """Return the requested names in the form that grants store.

    A name that several of the APIs declare is requested at each. Names that none of them declares
    are kept.
    """
    others = [api for api in apis if api.id]
    if not others:
        return scope
    default = {name for api in apis if not api.id for name in api.scopes}
    names: list[str] = []
    for name in scope.names:
        if name in IDENTITY_SCOPES or name in default:
            names.append(name)
        else:
            names += [api.qualified(name) for api in others if name in api.scopes] or [name]
    return Scope(tuple(dict.fromkeys(names)))


def exists(name: str, apis: Sequence[Api]) -> bool:
    """Return whether the name in a request is a scope of the user or of one of the APIs."""
    return name in IDENTITY_SCOPES or any(name in api.scopes for api in apis)


def plain(scope: Scope) -> Scope:
    """Return the names of a grant's scope as clients and tokens have them."""
    names = (unqualified(name)[1] for name in scope)
    return Scope(tuple(dict.fromkeys(name for name in names if name)))


class ScopeText(Struct, frozen=True):
    """A scope of a grant or a consent as pages show it.

    `stored` is its name there and `name` the one that clients know. `api` is the name of its API,
    "" for the default API and the account. `sentence` is "" if the API no longer declares it.
    Access to an API without any of its scopes has no name.
    """

    stored: str
    name: str
    api: str
    sentence: str


def described(
    scope: Iterable[str], apis: Sequence[Api], default: Mapping[str, str]
) -> Sequence[ScopeText]:
    """Return the scopes in words, grouped by API: the default API and the account come first.

    `default` are the sentences of these two, `apis` the others in their order. A scope of an API
    that is not among them is left out: a deleted API allows nothing.
    """
    groups: dict[str, list[ScopeText]] = {"": [], **{api.id: [] for api in apis}}
    owners = {api.id: api for api in apis if api.id}
    for stored in scope:
        owner, name = unqualified(stored)
        api = owners.get(owner)
        if api is not None:
            sentence = api.scopes.get(name, "") if name else _ACCESS
            text = ScopeText(stored, name, api.name, sentence)
            groups[owner].append(text)
        elif not owner:
            groups[""].append(ScopeText(stored, name, "", default.get(name, "")))
    return [text for group in groups.values() for text in group]


def scope_record(scope: Scope, apis: Sequence[Api]) -> Mapping[str, object]:
    """Return the scope of a grant or a consent for programs.

    `scope` are the names that clients know; `apis` tells which of them are for which API, the
    default API and APIs that were deleted excepted.
    """
    owned = [unqualified(name) for name in scope]
    return {
        "scope": str(plain(scope)),
        "apis": [
            {
                "identifier": api.identifier,
                "name": api.name,
                "scope": " ".join(name for owner, name in owned if owner == api.id and name),
            }
            for api in apis
        ],
    }


def at(api: Api, granted: Scope) -> Scope:
    """Return the scope of a token for `api`: what was granted there, and about the user.

    A scope that the API no longer declares is left out.
    """
    if api.is_default:
        return Scope(tuple([name for name in granted if "#" not in name]))
    names: list[str] = []
    for name in granted:
        owner, scope_name = unqualified(name)
        if (owner == api.id and scope_name in api.scopes) or (
            not owner and name in IDENTITY_SCOPES
        ):
            names.append(scope_name)
    return Scope(tuple(names))


def issuable(live: Sequence[Api], granted: Scope, default: Api) -> Sequence[Api]:
    """Return those of a grant's APIs for which there is a token: the user allowed something there.

    Scopes about the user come along, and are never enough at another API than the default one,
    which userinfo takes: users who allowed nothing else get a client a token for that.
    """
    granted_apis = [api for api in live if _is_granted(api, granted)]
    if live and not granted_apis and at(default, granted):
        return [default]
    return granted_apis


def _is_granted(api: Api, granted: Scope) -> bool:
    if api.is_default:
        return bool(at(api, granted))
    for name in granted.names:
        owner, scope_name = unqualified(name)
        if owner == api.id and (not scope_name or scope_name in api.scopes):
            return True
    return False


def still(granted: Scope, client: Client) -> Scope:
    """Return what remains of a grant's scope after the client's registration shrank."""
    registered = client.scope
    if granted.names == registered.names:
        return granted
    return _still(granted.names, registered.names)


@lru_cache(maxsize=1_024)
def _still(granted: tuple[str, ...], registered: tuple[str, ...]) -> Scope:
    return Scope(tuple([name for name in granted if "#" in name or name in registered]))
