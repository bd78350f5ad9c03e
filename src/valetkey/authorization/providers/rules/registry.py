"""The sign-in providers: those of the settings in their order, then those of the console."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, cast

from msgspec import Struct, inspect

from valetkey.authorization.operations.operation import Services
from valetkey.authorization.protocol.register.faults import MetadataError, fault, input_fault
from valetkey.authorization.providers.model import (
    CHOSEN,
    LONGEST_SECRET,
    SECRET,
    ProviderChanged,
    ProviderCreated,
    ProviderDisabled,
    ProviderEnabled,
    ProviderRemoved,
    ProviderWanted,
    StoredProvider,
    secret_place,
)
from valetkey.authorization.providers.rules.identities import (
    Provider,
    ProviderConnection,
    SignAssertion,
)
from valetkey.authorization.providers.rules.openid import GitHubProvider, OpenIdProvider
from valetkey.authorization.providers.settings import (
    ID,
    ISSUERS,
    LISTS,
    LONGEST,
    MOST,
    FederationSettings,
    ProviderKind,
    ProviderSettings,
    usable_issuer,
)
from valetkey.authorization.providers.storage import StoredProviders
from valetkey.authorization.storage.transaction import Followed, Transaction
from valetkey.authorization.tokens.client_keys import sign_client_assertion
from valetkey.config.settings import Settings
from valetkey.fetch.outbound import OutboundHttp
from valetkey.kernel.keyring import Sealer
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, OperatorError, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import Secret
from valetkey.kernel.text import translatable
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

    @staticmethod
    def from_services(services: Services) -> "ProviderFactory":
        """Return the factory of a server."""
        return ProviderFactory(
            services.settings,
            services.outgoing,
            services.keyring.sealer,
            services.runtime.now,
            partial(sign_client_assertion, services.keys, services.runtime),
        )

    def of_settings(self) -> Sequence[Provider]:
        """Return the providers of the settings. Raises OperatorError for one without a secret."""
        settings = self.settings
        secrets = _by_environment(settings)
        providers = settings.section(FederationSettings).providers
        if unknown := secrets.keys() - {provider.id for provider in providers}:
            raise OperatorError(f'no provider is called "{min(unknown)}"', "federation.secrets")
        return [
            self._provider(provider, _secret(settings, provider.id, provider.secret_file, secrets))
            for provider in providers
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
            stored.id == provider.id or stored.issuer == provider.issuer
            for provider in self.settings.section(FederationSettings).providers
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
        """Read what administrators stored, for `apply` outside of the transaction."""
        return StoredProviders.of(tx).all()

    def apply(self, stored: Sequence[StoredProvider]) -> None:
        """Offer the stored providers after those of the settings."""
        # A provider that stayed as it was keeps its cached metadata.
        before, self._stored = self._stored, {}
        for stored_provider in stored:
            stored_before = before.get(stored_provider.id)
            same = stored_before is not None and stored_before[0] == stored_provider
            self._stored[stored_provider.id] = (
                stored_before
                if stored_before and same
                else (stored_provider, self._opened(stored_provider))
            )
        self.all = (
            *self._of_settings,
            *(
                provider
                for stored_provider, provider in self._stored.values()
                if provider
                and stored_provider.disabled_at is None
                and not self._factory.is_hidden(stored_provider)
            ),
        )

    def _opened(self, stored: StoredProvider) -> Provider | None:
        provider = self._factory.of_stored(stored)
        if provider is None:
            log.warning("provider.unreadable", provider=stored.id)
        return provider

    def find(self, id: str) -> Provider | None:
        """Return the offered provider with this id; None also for a disabled one."""
        return next((provider for provider in self.all if provider.settings.id == id), None)

    def of_issuer(self, issuer: str) -> Provider | None:
        """Return the provider for identities of this issuer."""
        return next((provider for provider in self.all if provider.settings.issuer == issuer), None)

    @property
    def issuers(self) -> frozenset[str]:
        """The issuers whose identities can sign in now."""
        return frozenset(provider.settings.issuer for provider in self.all)

    def __iter__(self) -> Iterator[Provider]:
        """Iterate over the providers."""
        return iter(self.all)


def _by_environment(settings: Settings) -> dict[str, str]:
    text = settings.section(FederationSettings).secrets
    if text is None:
        return {}
    pairs = [pair.partition("=") for pair in text.reveal().split(",")]
    if not all(name.strip() and equals and value.strip() for name, equals, value in pairs):
        raise OperatorError(
            "write id=secret for each, with commas between them", "federation.secrets"
        )
    return {name.strip(): value.strip() for name, _, value in pairs}


def _secret(settings: Settings, id: str, file: str, secrets: dict[str, str]) -> Secret:
    if id in secrets:
        return Secret(secrets[id])
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


MOST_COUNTED = 10_000
"""Linked accounts are counted up to this number."""

_RESERVED = frozenset({"new"})  # the address of the form
Faults = tuple[MetadataError, ...]

_NO_SECRET = fault(SECRET, "secret.given")
_DECLARED = {
    field.name: field.type
    for field in cast("inspect.StructType", inspect.type_info(ProviderWanted)).fields
}


class ProviderChanges(Struct, frozen=True):
    """Adds and changes providers."""

    factory: ProviderFactory
    random: Callable[[int], bytes]

    def create(
        self, tx: Transaction, wish: ProviderWanted, now: Instant
    ) -> StoredProvider | Faults:
        """Add a provider; return it, or why not. Call `take_turn` first."""
        issuer = wish.issuer.strip() or ISSUERS[wish.kind]
        chosen = _stripped({name: getattr(wish, name) for name in CHOSEN})
        if faults := (*self._identity_faults(tx, wish.id, issuer), *_faults(chosen)):
            return faults
        secret = chosen.pop(SECRET)
        if not secret:
            return (_NO_SECRET,)
        sealed = self._sealed(wish.id, secret)
        provider = StoredProvider(
            id=wish.id, kind=wish.kind, issuer=issuer, sealed=sealed, created_at=now, **chosen
        )
        if not StoredProviders.of(tx).add(provider):
            return (input_fault("id", "name.taken"),)
        tx.events.add(ProviderCreated(provider.id, provider.issuer), now)
        return provider

    def change(
        self, tx: Transaction, provider: StoredProvider, changes: Mapping[str, Any], now: Instant
    ) -> StoredProvider | Faults:
        """Change a provider; return it, or why not. Call `take_turn` first.

        `changes` have new values of `CHOSEN`; an empty client secret keeps the stored one.
        """
        chosen = provider.chosen | _stripped(changes)
        if faults := _faults(chosen):
            return faults
        secret = chosen.pop(SECRET, "")
        after = replace(provider, **chosen)
        fields = [name for name in chosen if getattr(after, name) != getattr(provider, name)]
        if secret:
            after = replace(after, sealed=self._sealed(provider.id, secret))
            fields.append(SECRET)
        if fields and StoredProviders.of(tx).change(after):
            tx.events.add(ProviderChanged(provider.id, tuple(fields)), now)
        return after

    def _identity_faults(self, tx: Transaction, provider_id: str, issuer: str) -> Faults:
        others = [
            *self.factory.settings.section(FederationSettings).providers,
            *(provider.settings for provider in StoredProviders.of(tx).all()),
        ]
        faults = list[MetadataError]()
        if provider_id in _RESERVED or re.fullmatch(ID, provider_id, re.ASCII) is None:
            faults.append(input_fault("id", "id.form"))
        elif any(provider.id == provider_id for provider in others):
            faults.append(input_fault("id", "name.taken"))
        if len(issuer) > LONGEST or not issuer.isprintable() or not usable_issuer(issuer):
            faults.append(input_fault("issuer", "claim.link"))
        elif any(provider.issuer == issuer for provider in others):
            # Linked accounts are looked up by issuer: two providers of one issuer would share them.
            faults.append(input_fault("issuer", "issuer.taken"))
        if len(others) >= MOST:
            faults.append(input_fault("id", "id.most", most=MOST))
        return tuple(faults)

    def _sealed(self, provider_id: str, secret: str) -> str:
        return self.factory.sealer.seal(secret.encode(), secret_place(provider_id), self.random)


def disable(tx: Transaction, provider: StoredProvider, now: Instant) -> bool:
    """Disable a provider. False if it was disabled already."""
    if not StoredProviders.of(tx).disable(provider.id, now):
        return False
    tx.events.add(ProviderDisabled(provider.id), now)
    return True


def enable(tx: Transaction, provider: StoredProvider, now: Instant) -> bool:
    """Enable a disabled provider. False if it was enabled already."""
    if not StoredProviders.of(tx).enable(provider.id):
        return False
    tx.events.add(ProviderEnabled(provider.id), now)
    return True


def remove(tx: Transaction, provider: StoredProvider, now: Instant) -> bool:
    """Delete a provider. Linked accounts stay, for a provider with the same issuer."""
    linked = StoredProviders.of(tx).linked(provider.issuer, MOST_COUNTED).count
    if not StoredProviders.of(tx).remove(provider.id):
        return False
    tx.events.add(ProviderRemoved(provider.id, provider.issuer, linked), now)
    return True


def reseal_all(tx: Transaction, reseal: Callable[[str, str, str], str]) -> None:
    """Seal the secrets again, after a change of the keyring."""
    for provider in StoredProviders.of(tx).all():
        where, what = secret_place(provider.id), f"sign-in provider {provider.id}"
        sealed = reseal(provider.sealed, where, what)
        StoredProviders.of(tx).reseal(provider.id, provider.sealed, sealed)


def no_such_provider() -> Refused:
    """Return the refusal of a provider that does not exist."""
    return Refused.because(
        ErrorCode.NOT_FOUND, "this sign-in provider does not exist", "provider.unknown"
    )


def from_settings() -> Refused:
    """Return the refusal to change a provider of the configuration file."""
    return Refused.because(
        ErrorCode.CONFLICT,
        translatable("this provider is in the configuration file; change it there"),
        "provider.from_settings",
    )


def _stripped(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values as they are stored."""
    return {name: _as_stored(value) for name, value in values.items()}


def _as_stored(value: object) -> object:
    match value:
        case str():
            return value.strip()
        case list():
            return tuple(cast("list[str]", value))
        case _:
            return value


def _faults(chosen: Mapping[str, Any]) -> Faults:
    """Return what is wrong beyond the types and in values that no request judged."""
    faults = (_fault(name, chosen[name], _DECLARED[name]) for name in CHOSEN if name in chosen)
    return tuple(fault for fault in faults if fault)


def _fault(name: str, value: Any, declared: inspect.Type) -> MetadataError | None:
    match declared:
        case inspect.Metadata(type=inspect.StrType()) if name == SECRET:
            is_text = value.isascii() and (value + "-").isprintable()
            return None if is_text and len(value) <= LONGEST_SECRET else _NO_SECRET
        case inspect.Metadata(type=inspect.StrType(max_length=int(longest))):
            if not 0 < len(value) <= longest or not value.isprintable():
                return input_fault(name, "text.some", least=1, most=longest)
        case inspect.Metadata(type=inspect.ListType(max_length=int(most))):
            if len(value) > most:
                return input_fault(name, "names.most", most=most)
            if not all(re.fullmatch(LISTS[name].pattern, text, re.ASCII) for text in value):
                return input_fault(name, "names.form")
        case _:
            pass
    return None
