"""The upstream providers: those of the settings in their order, then those of the console."""

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from valetkey.authorization.authentication.federation.github import GitHubProvider
from valetkey.authorization.authentication.federation.openid import OpenIdProvider
from valetkey.authorization.authentication.federation.provider import (
    Provider,
    ProviderConnection,
    SignAssertion,
)
from valetkey.authorization.model.account.provider import StoredProvider, secret_place
from valetkey.authorization.storage.followed import Followed
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.sections.federation import ProviderKind, ProviderSettings
from valetkey.config.settings import Settings
from valetkey.fetch.outbound import OutboundHttp
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.seal import Sealer
from valetkey.kernel.secret import Secret
from valetkey.web import log

_KINDS: dict[ProviderKind, Callable[[ProviderConnection], Provider]] = {
    ProviderKind.OPENID: OpenIdProvider,
    ProviderKind.GITHUB: GitHubProvider,
}


class ProviderFactory(Struct, frozen=True):
    """Builds providers from the settings and from the database."""

    settings: Settings
    http: OutboundHttp
    sealer: Sealer
    now: Callable[[], Instant]
    sign: SignAssertion | None = None

    def of_settings(self) -> Sequence[Provider]:
        """Return the providers of the settings. Raises OperatorError for one without a secret."""
        settings = self.settings
        told = _by_environment(settings)
        found = settings.federation.providers
        if unknown := told.keys() - {each.id for each in found}:
            raise OperatorError(f'no provider is called "{min(unknown)}"', "federation.secrets")
        return [
            self._provider(each, _secret(settings, each.id, each.secret_file, told))
            for each in found
        ]

    def of_stored(self, stored: StoredProvider) -> Provider | None:
        """Return a stored provider; None if the keyring does not open its secret."""
        plain = self.sealer.open(stored.sealed, secret_place(stored.id))
        if plain is None:
            return None
        return self._provider(stored.settings, Secret(plain.decode()))

    def is_hidden(self, stored: StoredProvider) -> bool:
        """Return whether the settings have a provider with the same id or the same issuer."""
        return any(
            stored.id == each.id or stored.issuer == each.issuer
            for each in self.settings.federation.providers
        )

    def _provider(self, settings: ProviderSettings, secret: Secret) -> Provider:
        return _KINDS[settings.kind](
            ProviderConnection(settings, secret, self.http, self.now, self.sign)
        )


class Providers(Followed[Sequence[StoredProvider]]):
    """The servers at which users may sign in, kept in memory and read again after a change."""

    def __init__(self, factory: ProviderFactory) -> None:
        """Start with those of the settings. Raises OperatorError for one without a secret."""
        self._factory = factory
        self._of_settings = tuple(factory.of_settings())
        self._stored: dict[str, tuple[StoredProvider, Provider | None]] = {}
        self.all: tuple[Provider, ...] = self._of_settings

    def read(self, tx: Transaction) -> Sequence[StoredProvider]:
        """Return the stored providers."""
        return tx.providers.all()

    def apply(self, stored: Sequence[StoredProvider]) -> None:
        """Offer the stored providers after those of the settings."""
        # A provider that stayed as it was keeps its cached metadata.
        before, self._stored = self._stored, {}
        for each in stored:
            known = before.get(each.id)
            same = known is not None and known[0] == each
            self._stored[each.id] = known if known and same else (each, self._opened(each))
        self.all = (
            *self._of_settings,
            *(
                provider
                for each, provider in self._stored.values()
                if provider and each.disabled_at is None and not self._factory.is_hidden(each)
            ),
        )

    def _opened(self, stored: StoredProvider) -> Provider | None:
        provider = self._factory.of_stored(stored)
        if provider is None:
            log.warning("provider.unreadable", provider=stored.id)
        return provider

    def find(self, id: str) -> Provider | None:
        """Return the provider with this id."""
        return next((each for each in self.all if each.settings.id == id), None)

    def of_issuer(self, issuer: str) -> Provider | None:
        """Return the provider for identities of this issuer."""
        return next((each for each in self.all if each.settings.issuer == issuer), None)

    @property
    def issuers(self) -> frozenset[str]:
        """The issuers whose identities can sign in now."""
        return frozenset(each.settings.issuer for each in self.all)

    def __iter__(self) -> Iterator[Provider]:
        """Iterate over the providers."""
        return iter(self.all)


def _by_environment(settings: Settings) -> dict[str, str]:
    text = settings.federation.secrets
    if text is None:
        return {}
    pairs = [pair.partition("=") for pair in text.reveal().split(",")]
    if not all(name.strip() and equals and value.strip() for name, equals, value in pairs):
        raise OperatorError(
            "write id=secret for each, with commas between them", "federation.secrets"
        )
    return {name.strip(): value.strip() for name, _, value in pairs}


def _secret(settings: Settings, id: str, file: str, told: dict[str, str]) -> Secret:
    if id in told:
        return Secret(told[id])
    if not file:
        message = f'"{id}" has no secret: name its secret_file'
        raise OperatorError(message, "federation.providers")
    path = settings.source.directory / file
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise OperatorError(f"{path} cannot be read", "federation.providers") from None
    if not text or not text.isascii() or not text.isprintable():
        raise OperatorError(f"{path} does not hold a secret", "federation.providers")
    return Secret(text)
