"""The public keys of clients: what they sign with, and what they want answers encrypted to."""

from valetkey.authorization.model.register.client import Client
from valetkey.kernel.jose.key import KeySet
from valetkey.kernel.moment import Instant


class ClientKeys:
    """The keys that clients registered."""

    async def signing(self, client: Client, now: Instant, *, kid: str | None = None) -> KeySet:
        """The keys with which this client signs; `kid` is the one that a signature names.

        A client without keys has an empty set.
        """
        return client.key_set
