"""Client secrets in clear, for clients that use their secret as an HMAC key (HS256)."""

from msgspec import Struct

from valetkey.authorization.model.register.client import Client
from valetkey.kernel.moment import Instant
from valetkey.kernel.seal import Sealer
from valetkey.kernel.secret import Secret


class SharedSecrets(Struct, frozen=True):
    """Decrypts the sealed secrets of clients; clients that do not sign with a secret have none."""

    sealer: Sealer

    def of(self, client: Client, now: Instant) -> tuple[Secret, ...]:
        """Return the client's live sealed secrets, newest first.

        Empty if it has none, or if the keyring is another one.
        """
        opened = (
            self.sealer.open(secret.sealed, place(secret.id))
            for secret in client.secrets
            if secret.sealed and secret.is_live(now)
        )
        return tuple(Secret(plain.decode()) for plain in opened if plain is not None)


def place(secret_id: str) -> str:
    """Return the binding of a sealed secret to its row: it cannot be decrypted in another."""
    return f"client_secrets.sealed:{secret_id}"
