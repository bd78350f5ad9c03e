"""Ways to obtain tokens, one per file; `grant_types` is the list."""

from valetkey.authorization.grant_types import (
    authorization_code,
    client_credentials,
    password,
    refresh_token,
)
from valetkey.authorization.grant_types.grant_type import GrantType
from valetkey.authorization.grant_types.password import Authenticate


def grant_types(authenticate: Authenticate) -> tuple[GrantType, ...]:
    """Every grant type of the token endpoint; metadata, validation and docs follow from it."""
    return (
        authorization_code.GRANT_TYPE,
        refresh_token.GRANT_TYPE,
        client_credentials.GRANT_TYPE,
        password.grant_type(authenticate),
    )
