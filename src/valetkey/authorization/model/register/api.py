"""APIs (protected resources): what an access token is for (RFC 8707)."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from msgspec import Struct

from valetkey.authorization.model.register.client import AccessTokenFormat, Client
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.moment import Instant, Lifetime
from valetkey.kernel.scope import Scope

ApiGeneration = tuple[str, int]
"""The id of an API and the generation in which something was granted; "" is the default API."""


class Api(Struct, frozen=True):
    """One API. The default API is the operator's own, at `resource.url`; its id is "".

    `scopes` are what users can allow, each with its description; `machine_scope` is what clients
    have of their own. `access_token_format` and `access_token_lifetime` are None where the client's
    registration decides, `clients` is None if every client may ask for the API. `shares_scopes`
    permits other APIs that set it too to declare the same scope names. `roles` can be assigned to
    users and groups. Tokens of users are for members of one of `required_groups` only, if there are
    any. What was granted in an earlier generation has ended.
    """

    id: str
    identifier: str
    name: str
    scopes: Mapping[str, str]
    machine_scope: Scope
    access_token_format: AccessTokenFormat | None
    access_token_lifetime: Lifetime | None
    signing_algorithm: Algorithm
    clients: frozenset[str] | None
    shares_scopes: bool
    created_at: Instant
    changed_at: Instant
    disabled_at: Instant | None = None
    roles: tuple[str, ...] = ()
    generation: int = 0
    required_groups: tuple[str, ...] = ()

    @property
    def is_default(self) -> bool:
        """Whether this is the operator's own API."""
        return not self.id

    def admits(self, client: Client) -> bool:
        """Return whether the client may ask for this API."""
        return self.disabled_at is None and (self.clients is None or client.id in self.clients)

    @property
    def access(self) -> str:
        """Return the name under which a grant or a consent has this API without any of its scopes.

        The user allows it where a request names the API and none of its scopes; "" for the default
        API, which every grant may be for.
        """
        return self.qualified("")

    def qualified(self, name: str) -> str:
        """Return the name under which a grant or a consent stores this API's scope `name`.

        Two APIs may have scopes of one name, so the name is prefixed with the API's id and a `#`,
        which no scope of the default API contains.
        """
        return f"{self.id}#{name}" if self.id else name


def required_groups(client: Client, apis: Iterable[Api]) -> tuple[tuple[str, ...], ...]:
    """Return the groups that the client and each of the APIs require, without those of none."""
    required = (client.openid.required_groups, *(api.required_groups for api in apis))
    return tuple(each for each in required if each)


@lru_cache(maxsize=4_096)
def unqualified(name: str) -> tuple[str, str]:
    """Return the id of the API and the plain name of a name in a grant; "" is the default API."""
    before, separator, after = name.partition("#")
    return (before, after) if separator else ("", name)


def generations(apis: Sequence[Api]) -> tuple[ApiGeneration, ...]:
    """Return what codes and grants keep of their APIs: nothing for the default API alone."""
    if len(apis) == 1:
        return ((apis[0].id, apis[0].generation),) if apis[0].id else ()
    return tuple((api.id, api.generation) for api in apis)
