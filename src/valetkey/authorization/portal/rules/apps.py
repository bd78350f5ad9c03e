"""Rules of the developer portal: who may register apps and which, their secrets, test runs."""

import hashlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from enum import StrEnum

import msgspec
from msgspec import Struct

from valetkey.authorization.actions.bulk_revocation import delete_clients
from valetkey.authorization.actions.clients import MOST_SECRETS, Faults, Registrar
from valetkey.authorization.actions.presets import AppRules, RegistrationDenial, kind_of
from valetkey.authorization.actions.teams import add_member, owned_apps
from valetkey.authorization.model.client import (
    AuthenticationMethod,
    Client,
    Editor,
    GrantTypeName,
    TeamRole,
)
from valetkey.authorization.model.user import Uid, User
from valetkey.authorization.operations.operation import Services
from valetkey.authorization.portal.settings import PortalSettings, Registrants
from valetkey.authorization.protocol.authorization_request import METHOD, challenge_of
from valetkey.authorization.protocol.claims import IDENTITY_SCOPES
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.authorization.protocol.register.client_rules import (
    GrantTypes,
)
from valetkey.authorization.protocol.register.faults import MetadataError, fault
from valetkey.authorization.protocol.register.self_registration import RESERVED, name_fault
from valetkey.authorization.protocol.resource import RESOURCE
from valetkey.authorization.storage.clients import QueryCredentialUse, SecretSummary
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.settings import Settings
from valetkey.kernel.keyring import Sealer
from valetkey.kernel.moment import Instant, Lifetime, days, hours, later, minutes
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.secret import Secret, from_base64url, to_base64url
from valetkey.kernel.strict_json import read_object

_CHANNEL = "portal"
_STILL_UNDER_WAY = 60
"""Seconds after which no request of a deleted app can still be running."""

_BATCH = 100


class Portal(Struct, frozen=True):
    """Registration of apps by developers. Methods run inside a transaction.

    `scopes` can be requested from users; `reserved_names` are not available.
    """

    registrar: Registrar
    settings: PortalSettings
    scopes: Collection[str]
    reserved_names: Collection[str]

    @staticmethod
    def from_services(services: Services) -> "Portal":
        """Return the portal of this server."""
        settings = services.settings
        return Portal(
            services.registrar(_CHANNEL),
            settings.section(PortalSettings),
            services.requestable,
            (*RESERVED, settings.brand.name),
        )

    @property
    def rules(self) -> AppRules:
        """What the form offers to a developer."""
        chosen = self.settings.scopes
        offered = tuple(
            name for name in self.scopes if name in IDENTITY_SCOPES or not chosen or name in chosen
        )
        return AppRules(
            self.registrar,
            offered,
            self.settings.grant_types,
            self.settings.default_profile.value,
            self.settings.apps_per_person,
        )

    def registration_denial(self, tx: Transaction, user: User) -> RegistrationDenial | None:
        """Return why this user may not register another app; None if they may."""
        who = self.settings.who
        if who is Registrants.NOBODY or not self.rules.kinds:
            return RegistrationDenial.CLOSED
        if who is Registrants.VERIFIED and user.email_verified_at is None:
            return RegistrationDenial.UNVERIFIED
        if who is Registrants.INVITED and not tx.members.is_developer(user.uid):
            return RegistrationDenial.UNINVITED
        if len(owned_apps(tx, user.uid)) >= self.settings.apps_per_person:
            return RegistrationDenial.FULL
        return None

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
            return (*faults, *self.registrar.rules.faults(metadata))
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
            return (*faults, *self.registrar.rules.faults(metadata))
        return self.registrar.change(tx, client, metadata, now)

    def delete(self, tx: Transaction, client: Client, now: Instant) -> None:
        """Delete the app with all that was issued to it, and its team. Its id is never reused."""
        self.registrar.remove(tx, client, now, because="deleted")
        tx.members.remove_all_of(client.id, now)

    def _own_faults(self, metadata: ClientMetadata, before: Client | None) -> Faults:
        """Return the errors by rules that hold only for the portal."""
        faults: list[MetadataError] = []
        if before is None and kind_of(metadata) not in self.rules.kinds:
            faults.append(fault("kind", "app.kind"))
        if before is None or metadata.name != before.name:
            code = name_fault(metadata.name, self.reserved_names)
            if code:
                faults.append(fault("name", code))
        scopes = {*self.rules.scopes, *(before.scope if before is not None else ())}
        if not set(metadata.scopes) <= scopes:
            faults.append(fault("scopes", "scopes.offered"))
        return tuple(faults)


def sweep_invitations(tx: Transaction, now: Instant) -> int:
    """Delete some expired invitations. Return how many."""
    return tx.team_invitations.sweep(now, _BATCH)


def sweep_deleted(tx: Transaction, now: Instant) -> int:
    """Delete the rows of some apps that were deleted a while ago. Return how many."""
    client_ids = tx.members.removed_before(Instant(now - _STILL_UNDER_WAY), _BATCH)
    return delete_clients(tx, client_ids, now)


_ENDING = 4


class Overlap(StrEnum):
    """The time for which the previous secret remains valid after a rotation."""

    HOUR = "1h"
    DAY = "24h"
    WEEK = "7d"
    UNTIL_ENDED = "open"

    @property
    def lifetime(self) -> Lifetime | None:
        """Return the time; None if the previous secret is ended by hand."""
        lengths = {Overlap.HOUR: hours(1), Overlap.DAY: days(1), Overlap.WEEK: days(7)}
        return lengths.get(self)


class NoNewSecret(StrEnum):
    """The reasons why no secret is issued."""

    GONE = "gone"  # no such app, or the user is no longer in its team
    OTHERS = "others"  # a secret was issued or revoked meanwhile
    FULL = "full"
    NONE = "none"  # this client does not use secrets


class AppSecrets(Struct, frozen=True):
    """Issues and ends the secrets of apps. Its methods run inside a transaction."""

    registrar: Registrar

    def issue(
        self,
        tx: Transaction,
        client_id: str,
        uid: Uid,
        secret: Secret,
        now: Instant,
        *,
        seen: str,
        overlap: Overlap,
    ) -> NoNewSecret | None:
        """Issue a secret; the old one ends after `overlap`. `seen` is the shown `state_of`."""
        tx.clients.touch()
        tx.users.hold(uid)
        client, user = tx.clients.find_held(client_id), tx.users.find(uid)
        if client is None or tx.members.find(client_id, uid) is None:
            return NoNewSecret.GONE
        if user is None or user.disabled_at is not None:
            return NoNewSecret.GONE
        live = tx.secrets.usable(client_id, now)
        if state_of(live) != seen:
            return NoNewSecret.OTHERS
        if len(live) >= MOST_SECRETS:
            return NoNewSecret.FULL
        if self.registrar.issue_secret(tx, client, secret, now, others_live=overlap.lifetime):
            return NoNewSecret.NONE
        save_last_letters(tx, client_id, secret, now, beside=live)
        return None

    def end(self, tx: Transaction, client_id: str, uid: Uid, secret_id: str, now: Instant) -> bool:
        """End a secret at once. False if there is none, or the user is not in the app's team."""
        tx.clients.touch()
        client = tx.clients.find_held(client_id)
        if client is None or tx.members.find(client_id, uid) is None:
            return False
        return self.registrar.end_secret(tx, client, secret_id, now)


def save_last_letters(
    tx: Transaction,
    client_id: str,
    secret: Secret,
    now: Instant,
    *,
    beside: Sequence[SecretSummary] = (),
) -> None:
    """Store the last characters of the app's new secret: the one that is not among `beside`."""
    other_ids = {summary.id for summary in beside}
    for fresh in tx.secrets.usable(client_id, now):
        if fresh.id not in other_ids:
            tx.secrets.save_last_letters(fresh.id, secret.reveal()[-_ENDING:])


def seen_in_url(
    live: Sequence[SecretSummary], sighting: QueryCredentialUse | None
) -> QueryCredentialUse | None:
    """Return when one of these secrets was sent in a URL; None if none was."""
    oldest = min((secret.created_at for secret in live), default=None)
    if sighting is None or oldest is None or sighting.last_seen_at < oldest:
        return None
    return sighting


def state_of(live: Sequence[SecretSummary]) -> str:
    """Return a hash of the ids of the secrets, by which a stale form is detected."""
    return hashlib.sha256(" ".join(sorted(secret.id for secret in live)).encode()).hexdigest()[:16]


CALLBACK = "/developer/try/callback"
"""The redirect URI of a test run that uses none of the app's own.

No client registers it: it is accepted in requests of one test run only, in the session that began
it.
"""

LIFETIME = minutes(10)
"""How long a test run may take."""

_CONTEXT = "developer trial"
_TOKEN = "developer trial token"
_SHOWN = 12


class TestRun(Struct, frozen=True):
    """A test run: its app, session and redirect URI, and the secrets of its requests.

    `resource` is the API that the token is for, "" for the default API.
    """

    client_id: str
    session_id: str
    redirect_uri: str
    scope: str
    verifier: str
    nonce: str
    expires_at: Instant
    resource: str = ""

    def seal(self, sealer: Sealer, random: Callable[[int], bytes]) -> str:
        """Return its `state`, which needs no encoding in a URL."""
        return sealer.seal(msgspec.msgpack.encode(self), _CONTEXT, random)

    @staticmethod
    def open(sealed: str, sealer: Sealer, now: Instant) -> "TestRun | None":
        """Decrypt what `seal` returned; None if it expired or is anything else."""
        plain = sealer.open(sealed, _CONTEXT)
        if plain is None:
            return None
        try:
            trial = msgspec.msgpack.decode(plain, type=TestRun)
        except msgspec.MsgspecError:
            return None
        return trial if trial.expires_at > now else None

    def request(self, state: str) -> tuple[tuple[str, str], ...]:
        """Return the parameters of its authorization request."""
        return (
            ("response_type", "code"),
            ("client_id", self.client_id),
            ("redirect_uri", self.redirect_uri),
            *((("scope", self.scope),) if self.scope else ()),
            *self._target,
            ("state", state),
            ("nonce", self.nonce),
            ("code_challenge", challenge_of(self.verifier)),
            ("code_challenge_method", METHOD),
        )

    def exchange(self, code: str) -> tuple[tuple[str, str], ...]:
        """Return the parameters of its token request, without client authentication."""
        return (
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", self.redirect_uri),
            ("code_verifier", self.verifier),
            *self._target,
        )

    @property
    def _target(self) -> tuple[tuple[str, str], ...]:
        return ((RESOURCE, self.resource),) if self.resource else ()


class TestRunToken(Struct, frozen=True):
    """The access token of a test run, and what the response said about it."""

    token: str
    scope: str
    expires_at: Instant

    def seal(self, session_id: str, sealer: Sealer, random: Callable[[int], bytes]) -> str:
        """Encrypt it for the next step of this session."""
        return sealer.seal(msgspec.msgpack.encode(self), f"{_TOKEN} {session_id}", random)

    @staticmethod
    def open(sealed: str, session_id: str, sealer: Sealer) -> "TestRunToken | None":
        """Decrypt what `seal` returned for this session; None for anything else."""
        plain = sealer.open(sealed, f"{_TOKEN} {session_id}")
        return None if plain is None else msgspec.msgpack.decode(plain, type=TestRunToken)


def begin(
    client: Client,
    session_id: str,
    redirect_uri: str,
    scope: str,
    random: Callable[[int], bytes],
    now: Instant,
    resource: str = "",
) -> TestRun:
    """Begin a test run of this client."""
    return TestRun(
        client_id=client.id,
        session_id=session_id,
        redirect_uri=redirect_uri,
        scope=scope,
        verifier=to_base64url(random(32)),
        nonce=to_base64url(random(16)),
        expires_at=later(now, LIFETIME),
        resource=resource,
    )


def callback_of(
    issuer: str, sealer: Sealer, parameters: Mapping[str, str], now: Instant
) -> TestRun | None:
    """Return the test run of an authorization request that returns to the portal, or None."""
    callback = f"{issuer}{CALLBACK}"
    if parameters.get("redirect_uri") != callback:
        return None
    test_run = TestRun.open(parameters.get("state", ""), sealer, now)
    if test_run is None or test_run.redirect_uri != callback:
        return None
    return test_run if test_run.client_id == parameters.get("client_id") else None


def can_be_tried(client: Client) -> bool:
    """Return whether the client uses the flow, with a secret to enter or none."""
    return client.may_use(GrantTypeName.AUTHORIZATION_CODE) and client.authentication_method in {
        AuthenticationMethod.CLIENT_SECRET,
        AuthenticationMethod.NONE,
    }


def shortened(secret: str) -> str:
    """Return the beginning of a secret, for telling it from others; it is too short to be used."""
    return secret if len(secret) <= _SHOWN else f"{secret[:_SHOWN]}…"


def claims_in(token: str) -> str:
    """Return the claims of a JWT as JSON; "" for a token by reference.

    Nothing is verified: this server issued the token a moment ago.
    """
    parts = token.split(".")
    payload = from_base64url(parts[1]) if len(parts) == 3 else None  # noqa: PLR2004 - JWS
    if payload is None:
        return ""
    return json.dumps(read_object(payload), indent=2, ensure_ascii=False)


def check_grant_types(settings: Settings, grant_types: GrantTypes) -> None:
    """Raise OperatorError if developers' apps could have a grant type that they may not have."""
    allowed = [name for name, rules in grant_types.items() if Editor.DEVELOPER in rules.editors]
    for name in settings.section(PortalSettings).grant_types:
        # A default may name the grant type of a feature that was taken out.
        if name not in allowed and name not in PortalSettings().grant_types:
            names = ", ".join(allowed)
            raise OperatorError(f'"{name}" is not one of {names}', "portal.grant_types")


def check_scopes(settings: Settings, requestable: Collection[str]) -> None:
    """Raise OperatorError if developers' apps could have a scope that users cannot be asked for."""
    for name in settings.section(PortalSettings).scopes:
        if name not in requestable:
            names = ", ".join(requestable)
            raise OperatorError(f'"{name}" is not one of {names}', "portal.scopes")
