"""Grant types, one per file; `CORE` is the registry of those that no feature has."""

from valetkey.authorization.grant_types import (
    authorization_code,
    client_credentials,
    jwt_bearer,
    password,
    refresh_token,
    token_exchange,
)
from valetkey.authorization.grant_types.grant_type import GrantType

CORE: tuple[GrantType, ...] = (
    authorization_code.GRANT_TYPE,
    refresh_token.GRANT_TYPE,
    client_credentials.GRANT_TYPE,
    password.GRANT_TYPE,
    token_exchange.GRANT_TYPE,
    jwt_bearer.GRANT_TYPE,
)
"""The grant types of the token endpoint that the server always has."""
