"""Sign-in providers that administrators added, beside those of the configuration file."""

from msgspec import Struct

from valetkey.config.sections.federation import ProviderKind, ProviderSettings
from valetkey.kernel.moment import Instant


class StoredProvider(Struct, frozen=True):
    """A sign-in provider; `sealed` is the encrypted client secret.

    `id`, `kind` and `issuer` never change, because linked accounts belong to them.
    """

    id: str
    name: str
    kind: ProviderKind
    issuer: str
    client_id: str
    sealed: str
    scopes: tuple[str, ...]
    keep_claims: tuple[str, ...]
    sign_up: bool
    created_at: Instant
    disabled_at: Instant | None = None

    @property
    def settings(self) -> ProviderSettings:
        """Return the same as settings of the configuration file."""
        return ProviderSettings(
            id=self.id,
            name=self.name,
            kind=self.kind,
            issuer=self.issuer,
            client_id=self.client_id,
            scopes=self.scopes,
            sign_up=self.sign_up,
            keep_claims=self.keep_claims,
        )


def secret_place(provider_id: str) -> str:
    """Return the context in which the client secret is encrypted."""
    return f"providers.sealed:{provider_id}"
