"""METHODS, the list: metadata and the token endpoint's rules follow from it."""

from valetkey.authorization.client_authentication import client_secret, none, private_key_jwt
from valetkey.authorization.client_authentication.method import Method

METHODS: tuple[Method, ...] = (
    client_secret.METHOD,
    private_key_jwt.METHOD,
    none.METHOD,
)
