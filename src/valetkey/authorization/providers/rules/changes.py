"""Changes of the sign-in providers that administrators added.

The functions run inside a transaction that has checked the actor's permission.
"""

import re
from collections.abc import Callable, Sequence

from msgspec import Struct

from valetkey.authorization.authentication.federation.registry import ProviderFactory
from valetkey.authorization.model.account.provider import StoredProvider, secret_place
from valetkey.authorization.model.event.administration import (
    ProviderChanged,
    ProviderCreated,
    ProviderDisabled,
    ProviderEnabled,
    ProviderRemoved,
)
from valetkey.authorization.protocol.register.faults import MetadataError
from valetkey.authorization.protocol.register.reasons import input_fault
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.sections.federation import (
    CLAIM,
    ID,
    ISSUERS,
    LONGEST,
    MOST,
    MOST_KEPT,
    SCOPE,
    ProviderKind,
    usable_issuer,
)
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.words import translatable

MOST_COUNTED = 10_000
"""Linked accounts are counted up to this number."""

LONGEST_SECRET = 2_000
_LONGEST_NAME = 60
_RESERVED = frozenset({"new"})  # the address of the form
_CHOSEN = ("name", "client_id", "scopes", "keep_claims", "sign_up")

Faults = tuple[MetadataError, ...]


class ChosenProvider(Struct, frozen=True):
    """What is chosen about a provider; `secret` is "" to keep the stored one."""

    name: str
    client_id: str
    secret: str
    scopes: Sequence[str] = ()
    keep_claims: Sequence[str] = ()
    sign_up: bool = True


class ProviderChanges(Struct, frozen=True):
    """Adds and changes providers."""

    factory: ProviderFactory
    random: Callable[[int], bytes]

    def create(
        self,
        tx: Transaction,
        provider_id: str,
        kind: ProviderKind,
        issuer: str,
        chosen: ChosenProvider,
        now: Instant,
    ) -> StoredProvider | Faults:
        """Add a provider; return it, or why not. Call `take_turn` first."""
        issuer = issuer.strip() or ISSUERS[kind]
        if faults := (*self._identity_faults(tx, provider_id, kind, issuer), *_faults(chosen)):
            return faults
        if not chosen.secret:
            return (MetadataError("client_secret", "the client secret from the provider"),)
        provider = StoredProvider(
            id=provider_id,
            name=chosen.name.strip(),
            kind=kind,
            issuer=issuer,
            client_id=chosen.client_id.strip(),
            sealed=self._sealed(provider_id, chosen.secret),
            scopes=tuple(chosen.scopes),
            keep_claims=tuple(chosen.keep_claims),
            sign_up=chosen.sign_up,
            created_at=now,
        )
        if not tx.providers.add(provider):
            return (MetadataError("id", "another: this one is taken"),)
        tx.events.add(ProviderCreated(provider.id, provider.issuer), now)
        return provider

    def change(
        self, tx: Transaction, provider: StoredProvider, chosen: ChosenProvider, now: Instant
    ) -> StoredProvider | Faults:
        """Change a provider; return it, or why not. Call `take_turn` first."""
        if faults := _faults(chosen):
            return faults
        after = replace(
            provider,
            name=chosen.name.strip(),
            client_id=chosen.client_id.strip(),
            scopes=tuple(chosen.scopes),
            keep_claims=tuple(chosen.keep_claims),
            sign_up=chosen.sign_up,
        )
        fields = [each for each in _CHOSEN if getattr(after, each) != getattr(provider, each)]
        if chosen.secret:
            after = replace(after, sealed=self._sealed(provider.id, chosen.secret))
            fields.append("client_secret")
        if fields and tx.providers.change(after):
            tx.events.add(ProviderChanged(provider.id, tuple(fields)), now)
        return after

    def _identity_faults(
        self, tx: Transaction, provider_id: str, kind: ProviderKind, issuer: str
    ) -> Faults:
        others = [
            *self.factory.settings.federation.providers,
            *(each.settings for each in tx.providers.all()),
        ]
        faults = list[MetadataError]()
        if provider_id in _RESERVED or re.fullmatch(ID, provider_id, re.ASCII) is None:
            faults.append(MetadataError("id", "lower-case letters, digits and hyphens, at most 31"))
        elif any(each.id == provider_id for each in others):
            faults.append(MetadataError("id", "another: this one is taken"))
        if len(issuer) > LONGEST or not issuer.isprintable() or not usable_issuer(issuer):
            faults.append(input_fault("issuer", "claim.link"))
        elif any(each.issuer == issuer for each in others):
            # Linked accounts are looked up by issuer: two providers of one issuer would share them.
            faults.append(MetadataError("issuer", "another: there is a provider with this issuer"))
        if len(others) >= MOST:
            faults.append(MetadataError("id", f"one of at most {MOST} providers"))
        return tuple(faults)

    def _sealed(self, provider_id: str, secret: str) -> str:
        return self.factory.sealer.seal(secret.encode(), secret_place(provider_id), self.random)


def disable(tx: Transaction, provider: StoredProvider, now: Instant) -> bool:
    """Disable a provider. False if it was disabled already."""
    if not tx.providers.disable(provider.id, now):
        return False
    tx.events.add(ProviderDisabled(provider.id), now)
    return True


def enable(tx: Transaction, provider: StoredProvider, now: Instant) -> bool:
    """Enable a disabled provider. False if it was enabled already."""
    if not tx.providers.enable(provider.id):
        return False
    tx.events.add(ProviderEnabled(provider.id), now)
    return True


def remove(tx: Transaction, provider: StoredProvider, now: Instant) -> bool:
    """Delete a provider. Linked accounts stay, for a provider with the same issuer."""
    linked = tx.providers.linked(provider.issuer, MOST_COUNTED).count
    if not tx.providers.remove(provider.id):
        return False
    tx.events.add(ProviderRemoved(provider.id, provider.issuer, linked), now)
    return True


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


def _faults(chosen: ChosenProvider) -> Faults:
    faults = list[MetadataError]()
    for field, text, longest in (
        ("name", chosen.name.strip(), _LONGEST_NAME),
        ("client_id", chosen.client_id.strip(), LONGEST),
    ):
        if not 0 < len(text) <= longest or not text.isprintable():
            faults.append(MetadataError(field, f"a text of 1 to {longest} characters"))
    secret = chosen.secret
    if len(secret) > LONGEST_SECRET or not secret.isascii() or not (secret + "-").isprintable():
        faults.append(MetadataError("client_secret", "the client secret from the provider"))
    for field, names, pattern, most in (
        ("scopes", chosen.scopes, SCOPE, MOST_KEPT),
        ("keep_claims", chosen.keep_claims, CLAIM, MOST_KEPT),
    ):
        if len(names) > most:
            faults.append(MetadataError(field, f"at most {most} names"))
        elif not all(re.fullmatch(pattern, each, re.ASCII) for each in names):
            faults.append(MetadataError(field, "names without spaces and quotes"))
    return tuple(faults)
