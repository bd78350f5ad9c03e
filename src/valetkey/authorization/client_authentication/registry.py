"""METHODS, the list: metadata and the token endpoint's rules follow from it."""

from valetkey.authorization.client_authentication import (
    client_secret,
    client_secret_jwt,
    none,
    private_key_jwt,
)
from valetkey.authorization.client_authentication.method import Method

METHODS: tuple[Method, ...] = (
    client_secret.METHOD,
    client_secret_jwt.METHOD,
    private_key_jwt.METHOD,
    none.METHOD,
)
