"""The foundation: settings, keyring, database and keys, on which servers and commands stand."""

import contextlib
from collections.abc import Mapping
from functools import lru_cache

from msgspec import Struct, field

from valetkey.authorization.actions.account.removal import Removal
from valetkey.authorization.actions.account.sign_up import PeopleInvitations
from valetkey.authorization.actions.admin.roles import Roles
from valetkey.authorization.actions.clients import Registrar, Sectors
from valetkey.authorization.actions.presets import DeveloperPolicy
from valetkey.authorization.actions.records import keep_registered
from valetkey.authorization.actions.registrations import SelfRegistrar
from valetkey.authorization.actions.users import Accounts
from valetkey.authorization.email.notices import Links, MailOutbox, Notices
from valetkey.authorization.features import EVENTS, FEATURES, GRANT_RULES, KINDS, SCOPES, hooks
from valetkey.authorization.model.api import Api
from valetkey.authorization.model.client import CLIENT_SCOPE, Editor, ProfileName
from valetkey.authorization.model.event.chain import Retention, retention
from valetkey.authorization.model.event.event import SYSTEM, USUAL_ACTOR
from valetkey.authorization.operations.operation import Services
from valetkey.authorization.protocol.claims import GROUPS, IDENTITY_SCOPES
from valetkey.authorization.protocol.register.client_rules import ClientRules
from valetkey.authorization.protocol.register.self_registration import RESERVED, SelfRules
from valetkey.authorization.storage.restoration import RevocationLog
from valetkey.authorization.storage.transaction import Store
from valetkey.authorization.tokens.apis import default_api
from valetkey.authorization.tokens.claims import TokenClaims
from valetkey.authorization.tokens.claims_file import ClaimsFile
from valetkey.authorization.tokens.client_keys import (
    ClientKeys,
    SharedSecrets,
    default_id_token_algorithm,
)
from valetkey.authorization.tokens.signing_keys import KeyPlan, NoSigningKey, SigningKeyRing
from valetkey.config.installation import connect_to, open_tested, require_file
from valetkey.config.paths import credential_path, database_file, keyring_path, revocation_log_path
from valetkey.config.settings import Settings
from valetkey.fetch.outbound import OutboundHttp as Outgoing
from valetkey.kernel.keyring import Keyring, create_or_read, create_or_read_secret_file
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.replace import replace
from valetkey.kernel.runtime import Runtime
from valetkey.kernel.scope import Scope
from valetkey.kernel.secret import Prefix, Secret, fresh_secret, from_base64url
from valetkey.kernel.tracing import RequestSamples
from valetkey.kernel.url import origin


def check_grant_types(settings: Settings) -> None:
    """Raise OperatorError if the settings allow an unknown or a forbidden grant type."""
    registrable = [name for name, rules in GRANT_RULES.items() if Editor.CLIENT in rules.editors]
    section = settings.registration
    for name in section.grant_types:
        # A default may name the grant type of a feature that was taken out.
        if name not in registrable and name not in type(section)().grant_types:
            choices = ", ".join(registrable)
            raise OperatorError(f'"{name}" is not one of {choices}', "registration.grant_types")
    for feature in FEATURES:
        feature.check_settings(settings, GRANT_RULES)


def check_scopes(settings: Settings) -> None:
    """Raise OperatorError if `resource.scopes` gives an API a scope of this server itself."""
    for name, _ in settings.resource.scopes:
        if name in IDENTITY_SCOPES or name in CLIENT_SCOPE or name in SCOPES:
            raise OperatorError(
                f'"{name}" is a scope of the authorization server', "resource.scopes"
            )


SCHEMA = "valetkey.authorization.storage.schema"


class Foundation(Struct, frozen=True):
    """Settings, database and keys, on which servers and commands are built. Close its engine."""

    settings: Settings
    runtime: Runtime
    keyring: Keyring
    store: Store
    keys: SigningKeyRing
    scopes: Mapping[str, str]
    outgoing: Outgoing
    client_keys: ClientKeys
    claims_file: ClaimsFile | None = None
    samples: RequestSamples = field(default_factory=RequestSamples)
    file_settings: Settings | None = None
    """The settings without the stored values, if there are any that count."""

    @property
    def base(self) -> Settings:
        """Return the settings without stored values."""
        return self.file_settings or self.settings

    def check(self, settings: Settings) -> None:
        """Raise OperatorError for settings that the server would refuse at its start."""
        check_grant_types(settings)
        other = replace(self, settings=settings)
        other.self_registrar()
        for feature in FEATURES:
            feature.check_scopes(settings, other.requestable)

    @property
    def issuer(self) -> str:
        """The URL of this server, and the `iss` of everything it issues."""
        return self.settings.authorization.url

    @property
    def keep_events(self) -> Retention:
        """The retention of the audit log. Raises OperatorError for events that do not exist."""
        return retention(
            self.settings.log.keep_events, dict(self.settings.log.keep_events_of), EVENTS
        )

    @property
    def own_scope(self) -> Scope:
        """Return the scopes that clients use with tokens of their own: those without a description.

        Users cannot be asked for a permission without a description.
        """
        return _split(tuple(self.scopes.items()))[0]

    @property
    def requested_from_users(self) -> Mapping[str, str]:
        """Return all other scopes with their descriptions."""
        return _split(tuple(self.scopes.items()))[1]

    @property
    def default_api(self) -> Api:
        """The operator's own API."""
        return default_api(
            self.settings.audience,
            self.settings.brand.name,
            self.requested_from_users,
            self.own_scope | Scope(tuple(SCOPES)),
        )

    def token_claims(self) -> TokenClaims:
        """The builder of token claims, with a cache of declared claims."""
        userinfo = f"{self.issuer}/oauth/userinfo"
        return TokenClaims(self.store, self.default_api, self.claims_file, userinfo)

    async def close(self) -> None:
        """Close the database, and end the process of the claims file."""
        if self.claims_file is not None:
            await self.claims_file.close()
        await self.store.engine.close()

    def registrar(self, channel: str) -> Registrar:
        """Return the registrar of clients for changes through this channel."""
        return Registrar(
            ClientRules(
                own_origins=(origin(self.issuer), origin(self.settings.audience)),
                scopes=tuple(self.scopes),
                grant_types=GRANT_RULES,
                own_scopes=self.own_scope,
                default_profile=ProfileName(self.settings.clients.default_profile),
                signing_algorithms=self.settings.tokens.signing_algorithms,
                fetch_networks=self.settings.fetch.allow,
            ),
            self.keyring.fingerprint_key,
            self.keyring.sealer,
            self.runtime.random,
            channel,
        )

    @property
    def shared_secrets(self) -> SharedSecrets:
        """The secrets of clients that sign with them."""
        return SharedSecrets(self.keyring.sealer)

    def self_registrar(self) -> SelfRegistrar:
        """Return the registrar of dynamically registered clients.

        Raises OperatorError if the settings give them a scope that users cannot be asked for.
        """
        settings = self.settings.registration
        scope_names = self.requestable
        for name in settings.scopes:
            if name not in scope_names:
                message = f'"{name}" is not one of {", ".join(scope_names)}'
                raise OperatorError(message, "registration.scopes")
        algorithms = self.settings.tokens.signing_algorithms
        rules = SelfRules(
            grant_types=settings.grant_types,
            # Self-registered apps get groups only if the settings allow it.
            scopes=tuple(
                dict.fromkeys((*(n for n in IDENTITY_SCOPES if n != GROUPS), *settings.scopes))
            ),
            id_token_algorithm=default_id_token_algorithm(algorithms),
            reserved_names=(*RESERVED, self.settings.brand.name),
        )
        return SelfRegistrar(self.registrar("registration"), rules, settings.unused_lifetime)

    @property
    def removal(self) -> Removal:
        """Return the account removal."""
        return Removal(self.issuer, self.outbox, self.settings.accounts.deletion_grace)

    @property
    def roles(self) -> Roles:
        """Return the role assignments."""
        return Roles(self.notices)

    @property
    def requestable(self) -> tuple[str, ...]:
        """The scopes that apps can request from users, without those of features."""
        return tuple(name for name in self.requested_from_users if name not in SCOPES)

    @property
    def developers(self) -> DeveloperPolicy:
        """Return which users register apps."""
        policies = (feature.developers(self.settings) for feature in FEATURES)
        return next((policy for policy in policies if policy), DeveloperPolicy())

    @property
    def services(self) -> Services:
        """Return the services with which operations run."""
        return Services(
            self.settings,
            self.store,
            self.keyring.fingerprint_key,
            self.runtime.random,
            self.keys,
            self.token_claims(),
            self.registrar,
            Sectors(self.outgoing),
            self.accounts(),
            self.removal,
            self.roles,
            self.links,
            self.outbox,
            self.keyring,
            self.outgoing,
            self.runtime,
            self.base,
            self.check,
            KINDS,
            self.requestable,
            self.developers,
        )

    def accounts(self) -> Accounts:
        """The register of accounts."""
        return Accounts(self.runtime.random, self.notices, (self.settings.brand.name,))

    @property
    def notices(self) -> Notices:
        """Return the security notices that users get by email."""
        return Notices(self.issuer, self.outbox)

    @property
    def links(self) -> Links:
        """Return the factory of links in emails."""
        return Links(self.issuer, self.keyring, self.runtime.random)

    @property
    def people_invitations(self) -> PeopleInvitations:
        """The invitations to create an account."""
        return PeopleInvitations(self.links, self.outbox)

    @property
    def outbox(self) -> MailOutbox:
        """Return the email queue."""
        return MailOutbox(self.settings.mail, self.keyring, self.runtime.random)

    async def require_own_keyring(self) -> None:
        """Raise OperatorError unless this is the keyring that the database was created with.

        With another keyring every stored secret and session would be invalid.
        """
        print_ = from_base64url(self.keyring.fingerprint_key.fingerprint("keyring", "mark")) or b""
        mark = int.from_bytes(print_[:7], "big")
        if await self.store.write(lambda tx: tx.signing_keys.belongs_to(mark), done_by=USUAL_ACTOR):
            return
        source = (
            "the keyring in the environment"
            if self.settings.authorization.keyring_text is not None
            else str(keyring_path(self.settings))
        )
        raise OperatorError(
            f"{source} is not the keyring that this database was made with; put that one back: "
            "valetkey key restore FILE",
            "authorization.keyring",
        )

    async def keep_keys(self, now: Instant) -> None:
        """Create and retire signing keys as scheduled.

        Raises OperatorError where the keyring does not open what the database keeps sealed.
        """
        try:
            await self.keys.maintain(now)
        except NoSigningKey as error:
            raise OperatorError(f"{error}: restore the keyring that belongs to it") from error


# A server asks while it is built, for each of its pages.
@lru_cache(maxsize=16)
def _split(scopes: tuple[tuple[str, str], ...]) -> tuple[Scope, Mapping[str, str]]:
    """Return the scopes that clients use with tokens of their own, and all others described."""
    own = CLIENT_SCOPE | Scope(tuple(name for name, description in scopes if not description))
    others = {name: description for name, description in scopes if name not in own}
    return own, others


def build_foundation(
    settings: Settings, runtime: Runtime, scopes: Mapping[str, str], *, begins: bool = True
) -> Foundation:
    """Open keyring and database; `scopes` maps the scopes of all APIs to their descriptions.

    The description of a client's own scopes is "". A missing keyring or SQLite file is created only
    if this `begins` an installation.

    Raises OperatorError if the keyring is unusable, or if database or keyring is missing.
    """
    check_grant_types(settings)
    check_scopes(settings)
    require_file(settings, settings.authorization, begins=begins)
    keyring = _keyring(settings, runtime, begins=begins)
    engine = connect_to(settings, settings.authorization, begins=begins)
    store = Store(
        engine,
        runtime.random,
        hooks=hooks(settings),
        records_addresses=settings.privacy.record_ip_addresses,
    )
    tokens = settings.tokens
    plan = KeyPlan(tokens.signing_key_lifetime, tokens.key_publication, tokens.signing_algorithms)
    keys = SigningKeyRing(store.acting(SYSTEM), keyring.sealer, plan, runtime.random)
    ca_file = settings.source.directory / settings.fetch.ca_file if settings.fetch.ca_file else None
    outgoing = Outgoing(settings.fetch.allow, runtime.now, ca_file=ca_file)
    every = {**IDENTITY_SCOPES, **SCOPES, **scopes}
    file = settings.source.directory / tokens.claims_file if tokens.claims_file else None
    return Foundation(
        settings,
        runtime,
        keyring,
        store,
        keys,
        every,
        outgoing,
        ClientKeys(outgoing),
        None if file is None else ClaimsFile(file),
        RequestSamples(settings.sample_requests),
    )


async def prepare(settings: Settings, runtime: Runtime) -> bool:
    """Create the tables, the first signing keys, and the resource server's credential.

    Any number of processes may do this, any number of times. Whether the server has an owner.
    """
    foundation = build_foundation(settings, runtime, {})
    try:
        return await prepare_opened(foundation)
    finally:
        await foundation.store.engine.close()


async def prepare_opened(foundation: Foundation) -> bool:
    """Do the same as `prepare` with a foundation that stays open."""
    settings, runtime = foundation.settings, foundation.runtime
    await open_tested(settings, settings.authorization, foundation.store.engine, SCHEMA, runtime)
    await foundation.require_own_keyring()
    # Where the folder is not ours to write there is nothing to compact: `doctor` tells.
    with contextlib.suppress(OperatorError):
        RevocationLog(revocation_log_path(settings)).compact()
    now = runtime.now()
    await foundation.keep_keys(now)
    credential = _credential(settings, runtime)
    registrar = foundation.registrar("start")
    await foundation.store.write(
        lambda tx: keep_registered(tx, registrar, credential, now), done_by=SYSTEM
    )
    return await foundation.store.read(lambda tx: tx.user_directory.has_owner())


def _keyring(settings: Settings, runtime: Runtime, *, begins: bool) -> Keyring:
    text = settings.authorization.keyring_text
    if text is not None:
        return Keyring.parse(text.reveal())
    path, database = keyring_path(settings), database_file(settings, settings.authorization)
    if database is not None and database.exists() and not path.exists():
        raise OperatorError(
            f"there is a database, {database}, and no keyring at {path}; put the one back that "
            "belongs to it: valetkey key restore FILE",
            "authorization.keyring",
        )
    if not begins and not path.exists():
        raise OperatorError(
            f"there is no keyring at {path}; begin with `valetkey serve` or `valetkey apply`, or "
            "put the one back that belongs to the database: valetkey key restore FILE",
            "authorization.keyring",
        )
    return create_or_read(path, runtime.random)


def _credential(settings: Settings, runtime: Runtime) -> Secret:
    credential = settings.resource.credential_text
    if credential is not None:
        return credential

    def make() -> str:
        return fresh_secret(Prefix.CLIENT_SECRET, runtime.random).reveal()

    return Secret(create_or_read_secret_file(credential_path(settings), make).strip())
