"""Grant types, one per file; `GRANT_TYPES` is the registry."""

from types import MappingProxyType

from valetkey.authorization.grant_types import (
    authorization_code,
    client_credentials,
    device_code,
    implicit,
    jwt_bearer,
    password,
    refresh_token,
    token_exchange,
)
from valetkey.authorization.grant_types.grant_type import GrantType
from valetkey.authorization.protocol.register.client_rules import GrantTypes

GRANT_TYPES: tuple[GrantType, ...] = (
    authorization_code.GRANT_TYPE,
    refresh_token.GRANT_TYPE,
    client_credentials.GRANT_TYPE,
    password.GRANT_TYPE,
    device_code.GRANT_TYPE,
    token_exchange.GRANT_TYPE,
    jwt_bearer.GRANT_TYPE,
)
"""The grant types of the token endpoint."""

RULES: GrantTypes = MappingProxyType(
    {**{each.name: each.rules for each in GRANT_TYPES}, implicit.NAME: implicit.RULES}
)
"""The registration rules of all grant types: metadata, registration, settings and CLI derive."""
