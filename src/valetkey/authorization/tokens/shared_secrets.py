"""Client secrets in clear, for those clients whose secret is also a key of signatures (HS256)."""

from dataclasses import dataclass

from valetkey.authorization.model.register.client import Client
from valetkey.kernel.moment import Instant
from valetkey.kernel.seal import Sealer
from valetkey.kernel.secret import Secret


@dataclass(frozen=True, slots=True)
class SharedSecrets:
    """Opens what registration sealed; a client that signs with no secret has none here."""

    sealer: Sealer

    def of(self, client: Client, now: Instant) -> tuple[Secret, ...]:
        """The client's live secrets that are kept sealed, newest first.

        Empty where none is: then the client signs otherwise, or the keyring is another one.
        """
        opened = (
            self.sealer.open(secret.sealed, place(secret.id))
            for secret in client.secrets
            if secret.sealed and secret.is_live(now)
        )
        return tuple(Secret(plain.decode()) for plain in opened if plain is not None)


def place(secret_id: str) -> str:
    """Where a sealed secret lives; moved to another row it does not open."""
    return f"client_secrets.sealed:{secret_id}"
