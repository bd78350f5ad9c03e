"""Rules of the developer portal: who may register apps, and which."""

from collections.abc import Callable, Collection, Mapping
from enum import StrEnum

from msgspec import Struct

from valetkey.authorization.actions.bulk_revocation import delete_clients
from valetkey.authorization.actions.clients import Faults, Registrar, metadata_of
from valetkey.authorization.actions.developer.presets import AppKind, kind_of
from valetkey.authorization.actions.developer.secrets import save_last_letters
from valetkey.authorization.actions.developer.team import add_member, owned_apps
from valetkey.authorization.model.client import Client, GrantTypeName, TeamRole
from valetkey.authorization.model.user import User
from valetkey.authorization.protocol.claims import IDENTITY_SCOPES, OFFLINE_ACCESS
from valetkey.authorization.protocol.register.client_metadata import (
    ClientMetadata,
    with_values,
)
from valetkey.authorization.protocol.register.client_rules import FormOption, portal_options
from valetkey.authorization.protocol.register.faults import MetadataError, fault
from valetkey.authorization.protocol.register.self_registration import name_fault
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.sections.portal import PortalSettings, Registrants
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace
from valetkey.kernel.scope import Scope
from valetkey.kernel.secret import Secret, fresh_id

CHANNEL = "portal"
_STILL_UNDER_WAY = 60
"""Seconds after which no request of a deleted app can still be running."""

_BATCH = 100


class RegistrationDenial(StrEnum):
    """Why a user may not register an app, or not one more."""

    CLOSED = "closed"
    UNVERIFIED = "unverified"
    UNINVITED = "uninvited"
    FULL = "full"


class Portal(Struct, frozen=True):
    """Registration of apps by developers. Methods run inside a transaction.

    `scopes` can be requested from users; `reserved_names` are not available.
    """

    registrar: Registrar
    settings: PortalSettings
    scopes: Collection[str]
    reserved_names: Collection[str]

    @property
    def offered_scopes(self) -> tuple[str, ...]:
        """Return the scopes that a new app may request."""
        chosen = self.settings.scopes
        return tuple(
            name for name in self.scopes if name in IDENTITY_SCOPES or not chosen or name in chosen
        )

    @property
    def kinds(self) -> tuple[AppKind, ...]:
        """Return the kinds of apps that can be registered with the grant types in the settings."""
        allowed, kinds = self.settings.grant_types, list[AppKind]()
        if GrantTypeName.AUTHORIZATION_CODE in allowed:
            kinds += [AppKind.SERVER, AppKind.BROWSER, AppKind.DEVICE]
        if GrantTypeName.CLIENT_CREDENTIALS in allowed:
            kinds.append(AppKind.MACHINE)
        return tuple(kinds)

    @property
    def options(self) -> Mapping[str, FormOption]:
        """Return the grant types that the form of an app can choose, with their check boxes."""
        return portal_options(self.registrar.rules.grant_types)

    def registration_denial(self, tx: Transaction, user: User) -> RegistrationDenial | None:
        """Return why this user may not register another app; None if they may."""
        who = self.settings.who
        if who is Registrants.NOBODY or not self.kinds:
            return RegistrationDenial.CLOSED
        if who is Registrants.VERIFIED and user.email_verified_at is None:
            return RegistrationDenial.UNVERIFIED
        if who is Registrants.INVITED and not tx.members.is_developer(user.uid):
            return RegistrationDenial.UNINVITED
        if len(owned_apps(tx, user.uid)) >= self.settings.apps_per_person:
            return RegistrationDenial.FULL
        return None

    def edited(
        self, before: ClientMetadata, values: Mapping[str, object], grants: Collection[str]
    ) -> ClientMetadata:
        """Return the metadata after an edit by a developer; fields without a value stay.

        Of the grant types that the form can choose the app has those in `grants`, as far as the
        settings allow them or it had them before; others were given by an administrator and stay.
        """
        after = with_values(before, values)
        added = tuple(name for name in after.scopes if name not in before.scopes)
        default = [name for name in before.default_scopes if name in after.scopes]
        default += [name for name in added if name != OFFLINE_ACCESS]
        wanted = set(grants) & {*self.settings.grant_types, *before.grant_types}
        given = {name for name in before.grant_types if name not in self.options}
        return replace(
            after,
            grant_types=tuple(sorted(given | wanted)),
            default_scopes=Scope(tuple(default)).names,
            required_scopes=tuple(n for n in before.required_scopes if n in after.scopes),
        )

    def faults(self, metadata: ClientMetadata) -> Faults:
        """Return the errors in an app's metadata, except those that only a transaction can find."""
        return self.registrar.rules.faults(metadata)

    def register(
        self,
        tx: Transaction,
        user: User,
        metadata: ClientMetadata,
        now: Instant,
        *,
        client_id: str,
        secret: Secret | None,
    ) -> Client | Faults | RegistrationDenial:
        """Register an app owned by this user; or return why not, with nothing written."""
        # First the lock that serialises registrations: parallel ones would not count each other.
        tx.clients.touch()
        if denial := self.registration_denial(tx, user):
            return denial
        if faults := self._own_faults(metadata, None):
            return (*faults, *self.faults(metadata))
        made = self.registrar.register(tx, metadata, now, client_id=client_id, secret=secret)
        if not isinstance(made, tuple):
            add_member(tx, made.id, user.uid, TeamRole.OWNER, now)
            if secret is not None:
                save_last_letters(tx, made.id, secret, now)
        return made

    def change(
        self, tx: Transaction, client: Client, metadata: ClientMetadata, now: Instant
    ) -> Client | Faults:
        """Change an app. Return it, or every error."""
        if faults := self._own_faults(metadata, client):
            return (*faults, *self.faults(metadata))
        return self.registrar.change(tx, client, metadata, now)

    def drop_grant_type(
        self, tx: Transaction, client: Client, name: GrantTypeName, now: Instant
    ) -> Client | Faults:
        """Remove a legacy grant type, which only an administrator can restore. Return the app."""
        before = metadata_of(client)
        left = tuple(each for each in before.grant_types if each != name)
        return self.registrar.change(tx, client, replace(before, grant_types=left), now)

    def delete(self, tx: Transaction, client: Client, now: Instant) -> None:
        """Delete the app with all that was issued to it, and its team. Its id is never reused."""
        self.registrar.remove(tx, client, now, because="deleted")
        tx.members.remove_all_of(client.id, now)

    @property
    def sweeps(self) -> tuple[Callable[[Transaction, Instant], int], ...]:
        """Return the periodic maintenance jobs."""
        return (sweep_deleted, sweep_invitations)

    def _own_faults(self, metadata: ClientMetadata, before: Client | None) -> Faults:
        """Return the errors by rules that hold only for the portal."""
        found: list[MetadataError] = []
        if before is None and kind_of(metadata) not in self.kinds:
            found.append(
                MetadataError("kind", "another kind of app: this one cannot be registered here")
            )
        if before is None or metadata.name != before.name:
            code = name_fault(metadata.name, self.reserved_names)
            if code:
                found.append(fault("name", code))
        known = {*self.offered_scopes, *(before.scope if before is not None else ())}
        if not set(metadata.scopes) <= known:
            found.append(fault("scopes", "scopes.offered"))
        return tuple(found)


def fresh_client_id(random: Callable[[int], bytes]) -> str:
    """Generate the id of a new app."""
    return fresh_id("app", random)


def sweep_invitations(tx: Transaction, now: Instant) -> int:
    """Delete some expired invitations. Return how many."""
    return tx.team_invitations.sweep(now, _BATCH)


def sweep_deleted(tx: Transaction, now: Instant) -> int:
    """Delete the rows of some apps that were deleted a while ago. Return how many."""
    found = tx.members.removed_before(Instant(now - _STILL_UNDER_WAY), _BATCH)
    return delete_clients(tx, found, now)
