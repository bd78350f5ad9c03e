"""Client authentication methods (RFC 6749 section 2.3); `METHODS` is the registry."""

from collections.abc import Mapping
from types import MappingProxyType

from valetkey.authorization.protocol.client_authentication import assertion, client_secret, none
from valetkey.authorization.protocol.client_authentication.method import Method

METHODS: tuple[Method, ...] = (
    client_secret.METHOD,
    assertion.CLIENT_SECRET_JWT,
    assertion.PRIVATE_KEY_JWT,
    none.METHOD,
)
"""The methods of this server: metadata, registration rules, settings and CLI derive from them."""

PARAMETERS = frozenset(name for method in METHODS for name in method.parameters)
"""The body parameters that authenticate a client."""

BY_NAME: Mapping[str, Method] = MappingProxyType({method.name: method for method in METHODS})
"""The methods by the name that is stored with a client."""

REGISTERED: Mapping[str, str] = MappingProxyType(
    {name: method.name for method in METHODS for name in method.metadata_names}
)
"""The names of a registration (RFC 7591 section 2), mapped to the names of the methods."""
