"""Register, change, disable and enable clients, for site, API and commands."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import cast

from msgspec import Struct

from valetkey.authorization.actions.bulk_revocation import end_all_of_client
from valetkey.authorization.model.client import Client, ClientSecret, ProfileName, is_by_secret
from valetkey.authorization.model.event.grants import (
    ClientChanged,
    ClientDisabled,
    ClientEnabled,
    ClientRegistered,
    ClientRemoved,
    ClientSecretEnded,
    ClientSecretIssued,
    ClientVerificationEnded,
    RemovedBecause,
)
from valetkey.authorization.protocol.client_authentication.client_secret import secret_purpose
from valetkey.authorization.protocol.register.client_metadata import (
    FIELDS,
    ClientMetadata,
    as_document,
)
from valetkey.authorization.protocol.register.client_rules import ClientRules
from valetkey.authorization.protocol.register.faults import MetadataError, fault, input_fault
from valetkey.authorization.protocol.register.self_registration import look_alike
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.tokens.client_keys import secret_context
from valetkey.fetch.outbound import OutboundHttp, Unfetchable
from valetkey.kernel.keyring import Sealer
from valetkey.kernel.moment import Instant, Lifetime, later
from valetkey.kernel.refusal import Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.scope import Scope
from valetkey.kernel.secret import FingerprintKey, Secret, fresh_id
from valetkey.kernel.text import translatable
from valetkey.web.body import read_json

_OK = 200
_NO_LIST = fault("sector_identifier_uri", "sector.list")
_NOT_LISTED = fault("sector_identifier_uri", "sector.missing")
Faults = tuple[MetadataError, ...]


def affects_sector(metadata: ClientMetadata, before: Client | None) -> bool:
    """Return whether a sector has to list redirect URIs that it did not list for the client."""
    uri = metadata.openid.sector_identifier_uri
    if not uri:
        return False
    if before is None or before.openid.sector_identifier_uri != uri:
        return True
    return not set(metadata.redirect_uris) <= set(before.redirect_uris)


class Sectors(Struct, frozen=True):
    """Fetch sector identifier documents."""

    http: OutboundHttp

    async def faults_within(
        self, rules: ClientRules, metadata: ClientMetadata, before: Client | None
    ) -> Faults:
        """Return the errors of the sector identifier of a client that is registered or changed.

        Call it before the transaction, which must not wait for another server. Nothing is fetched
        if the client keeps its sector and has no new redirect URI, or if the rules refuse it.
        """
        # Scopes of declared APIs are judged by the transaction, and allow no address.
        others = (error for error in rules.faults(metadata) if not error.field.startswith("scopes"))
        if not affects_sector(metadata, before) or any(others):
            return ()
        return await self.faults(metadata)

    async def faults(self, metadata: ClientMetadata) -> Faults:
        """Return the errors of the client's sector identifier; nothing for a client without one.

        The caller has checked that the URL may be fetched.
        """
        uri = metadata.openid.sector_identifier_uri
        if not uri:
            return ()
        try:
            fetched = await self.http.get(uri)
            listed = read_json(fetched.body) if fetched.status == _OK else None
        except (Unfetchable, Refused):
            return (_NO_LIST,)
        if not isinstance(listed, list):
            return (_NO_LIST,)
        uris = {item for item in cast("list[object]", listed) if isinstance(item, str)}
        return () if uris.issuperset(metadata.redirect_uris) else (_NOT_LISTED,)


DOCUMENT = "document"
"""The channel of clients whose id is the URL of their metadata."""

OWN_CHANNELS = frozenset({"registration", "api", DOCUMENT})
"""The channels through which clients change themselves."""

OPERATORS_CHANNELS = frozenset({"admin", "cli", "start"})
"""The channels of operators, who may mark a client as verified; all others are not reviewed."""

# Others do not fetch the sector identifier document, which has to list new redirect URIs.
_CHANNELS_WITH_SECTORS = OPERATORS_CHANNELS | {"registration", DOCUMENT}

MOST_SECRETS = 2
"""Maximum number of live secrets of a client: the current one and its successor."""

SHORTEST_SECRET = 32
"""Minimum length of a secret in characters; a shorter one could be guessed."""

NO_SECRET = translatable("this client does not authenticate by a secret")
TOO_MANY_SECRETS = translatable(
    "two secrets work already: end one of them first, or let the others end at once"
)
_LONGEST_ID = 100
_MOST_LOOKED_UP = 100  # unknown scopes for which APIs are searched
_LONGEST_SECRET = 500
_LONGEST_TOLD = 300
NO_SCOPE = Scope()


class Registrar(Struct, frozen=True):
    """Registers and changes clients. Its methods run inside a transaction."""

    rules: ClientRules
    fingerprints: FingerprintKey
    sealer: Sealer
    random: Callable[[int], bytes]
    channel: str

    def register(
        self,
        tx: Transaction,
        metadata: ClientMetadata,
        now: Instant,
        *,
        client_id: str,
        secret: Secret | None,
    ) -> Client | Faults:
        """Return the new client, or every error.

        A client that authenticates by secret needs one. Its fingerprint is all that is kept, and
        the secret itself, sealed, for a client that signs with it or wants answers signed so.
        """
        faults = [*self.rules_for(tx, metadata).faults(metadata)]
        if self.channel != DOCUMENT:
            faults += client_id_faults(client_id)
        needs = is_by_secret(metadata.proof)
        if needs and secret is None:
            faults.append(MetadataError("client_secret", "this client authenticates by a secret"))
        if not needs and secret is not None:
            faults.append(MetadataError("client_secret", NO_SECRET))
        faults += secret_faults(secret)
        faults += self._name_faults(tx, metadata.name, "")
        if faults:
            return tuple(faults)
        client = self._client(metadata, client_id, now)
        if tx.clients.was_removed(client_id) or not tx.clients.register(client):
            return (input_fault("client_id", "name.taken"),)
        tx.events.add(ClientRegistered(client_id, self.channel), now)
        if secret is not None:
            self._add_secret(tx, client, secret, now)
        return tx.clients.find(client_id) or client

    def change(
        self, tx: Transaction, client: Client, metadata: ClientMetadata, now: Instant
    ) -> Client | Faults:
        """Change the client. Return the new record, or every error.

        If nothing differs, nothing is written and no event is recorded.
        """
        if faults := self.rules_for(tx, metadata, client.scope).faults(metadata):
            return faults
        if self.channel not in _CHANNELS_WITH_SECTORS and affects_sector(metadata, client):
            return (fault("redirect_uris", "sector.administrator"),)
        new = replace(
            self._client(metadata, client.id, now),
            created_at=client.created_at,
            changed_at=client.changed_at,
            disabled_at=client.disabled_at,
            secrets=client.secrets,
            self_registered=client.self_registered,
            verified_at=client.verified_at,
            generation=client.generation,
        )
        if self.channel in OWN_CHANNELS and (faults := _naming_faults(client, new)):
            return faults
        if new.name != client.name and (faults := self._name_faults(tx, new.name, client.id)):
            return faults
        changed = changed_fields(client, new)
        if not changed:
            return client
        new = replace(new, changed_at=now)
        if not tx.clients.change(new):
            return (MetadataError("client_id", "a client that is registered"),)
        values = (
            changed_values(client, new, changed) if self.channel in OPERATORS_CHANNELS else ((), ())
        )
        tx.events.add(ClientChanged(client.id, self.channel, changed, *values), now)
        # A changed name or redirect URI was not reviewed: the client is no longer verified.
        looks_different = new.appearance != client.appearance
        if (
            looks_different
            and self.channel not in OPERATORS_CHANNELS
            and tx.clients.unverify(client.id)
        ):
            tx.events.add(ClientVerificationEnded(client.id, "changed"), now)
            return replace(new, verified_at=None)
        return new

    def rules_for(
        self, tx: Transaction, metadata: ClientMetadata, had: Scope = NO_SCOPE
    ) -> ClientRules:
        """Return the rules, with the scopes of APIs and the machine scopes this client may have.

        Only operators assign them; changes by others keep them.
        """
        may = metadata.scopes if self.channel in OPERATORS_CHANNELS else had.names
        scopes = frozenset(self.rules.scopes)
        unknown = [name for name in metadata.scopes if name not in scopes][:_MOST_LOOKED_UP]
        if not unknown:
            return self.rules
        more = tuple(name for name in unknown if name in may and tx.apis.has_machine_scope(name))
        owners = {name: tx.apis.declaring(name, "") for name in unknown if name not in more}
        return replace(
            self.rules,
            scopes=(*self.rules.scopes, *more),
            own_scopes=self.rules.own_scopes | Scope(more),
            api_scopes={name: apis[0].identifier for name, apis in owners.items() if apis},
        )

    def _name_faults(self, tx: Transaction, name: str, but: str) -> Faults:
        """Return why an unverified client may not have this name; `but` is the client itself."""
        if self.channel in OPERATORS_CHANNELS or not look_alike(
            name, tx.clients.verified_names(but)
        ):
            return ()
        return (fault("name", "name.verified"),)

    def issue_secret(
        self,
        tx: Transaction,
        client: Client,
        secret: Secret,
        now: Instant,
        *,
        others_live: Lifetime | None,
        replaces_oldest: bool = False,
    ) -> Faults:
        """Add a secret; the others end after `others_live`, or never if that is None.

        A client has at most `MOST_SECRETS` live secrets. One more is a fault, or ends the oldest
        at once with `replaces_oldest`.
        """
        # Locked until the commit: parallel requests are counted one after the other.
        tx.clients.touch()
        held = tx.clients.find_held(client.id)
        if held is None or not held.has_secret:
            return (MetadataError("client_secret", NO_SECRET),)
        if faults := secret_faults(secret):
            return faults
        live = held.live_secrets(now) if others_live != 0 else ()
        oldest = live[MOST_SECRETS - 1 :]
        if oldest and not replaces_oldest:
            return (MetadataError("client_secret", TOO_MANY_SECRETS),)
        for old_secret in oldest:
            self.end_secret(tx, held, old_secret.id, now)
        at = None if others_live is None else later(now, others_live)
        self._add_secret(tx, held, secret, now, others_expire_at=at)
        return ()

    def end_secret(self, tx: Transaction, client: Client, secret_id: str, now: Instant) -> bool:
        """End a secret of the client at once. False if no live secret has this id."""
        if not tx.clients.end_secret(client.id, secret_id, now):
            return False
        tx.events.add(ClientSecretEnded(client.id, secret_id), now)
        return True

    def disable(self, tx: Transaction, client: Client, now: Instant) -> bool:
        """Disable a client and end everything issued to it. False if it was disabled."""
        if client.disabled_at is not None:
            return False
        tx.clients.change(replace(client, disabled_at=now, changed_at=now))
        end_all_of_client(tx, client.id, now, "client_disabled")
        tx.events.add(ClientDisabled(client.id), now)
        return True

    def remove(
        self,
        tx: Transaction,
        client: Client,
        now: Instant,
        *,
        because: RemovedBecause,
    ) -> None:
        """Remove a client for good and end everything issued to it.

        Its rows are deleted later: requests in progress may still write some.
        """
        tx.clients.change(replace(client, disabled_at=now, changed_at=now))
        end_all_of_client(tx, client.id, now, "client_removed")
        tx.events.add(ClientRemoved(client.id, because), now)

    def enable(self, tx: Transaction, client: Client, now: Instant) -> bool:
        """Enable a client; nothing that ended is restored. False if it was enabled."""
        if client.disabled_at is None:
            return False
        tx.clients.change(replace(client, disabled_at=None, changed_at=now))
        tx.events.add(ClientEnabled(client.id), now)
        return True

    def _add_secret(
        self,
        tx: Transaction,
        client: Client,
        secret: Secret,
        now: Instant,
        others_expire_at: Instant | None = None,
    ) -> None:
        print_ = self.fingerprints.fingerprint(secret_purpose(client.id), secret.reveal())
        name, sealed = fresh_id("cs", self.random), ""
        # Stored only where it is needed again: anything else could be stolen with the database.
        if client.signs_with_secret:
            sealed = self.sealer.seal(secret.reveal().encode(), secret_context(name), self.random)
        tx.clients.add_secret(client.id, ClientSecret(name, print_, None, sealed), now)
        if others_expire_at is not None:
            tx.clients.expire_other_secrets(client.id, name, others_expire_at)
        tx.events.add(ClientSecretIssued(client.id, name, others_expire_at), now)

    def _client(self, metadata: ClientMetadata, client_id: str, now: Instant) -> Client:
        values = {
            field.attribute: field.recorded(metadata) for field in FIELDS.values() if not field.part
        }
        values["profile_name"] = ProfileName(self.rules.profile_of(metadata))
        values["authentication_method"] = metadata.proof
        values["key_set"] = metadata.keys.signing
        return Client(
            id=client_id,
            created_at=now,
            changed_at=now,
            disabled_at=None,
            openid=metadata.completed,
            **values,
        )


def metadata_of(client: Client) -> ClientMetadata:
    """Return the metadata of this client; change a field and pass it to `change`."""
    values = {field.name: field.chosen(client) for field in FIELDS.values() if not field.part}
    values["key_set"] = as_document(client.key_set, client.openid.encryption_keys)
    return ClientMetadata(openid=client.openid, **values)


def changed_fields(before: Client, after: Client) -> tuple[str, ...]:
    """Return the names of the fields that differ between two records of one client."""
    apart = {"secrets", "changed_at", "key_set", "logo", "openid"}
    names = [name for name in _differing(before, after) if name not in apart]
    of_openid = _differing(before.openid, after.openid)
    names += [name for name in of_openid if name != "encryption_keys"]
    # Keys for encryption are registered with the others.
    if before.key_set.document() != after.key_set.document() or "encryption_keys" in of_openid:
        names.append("key_set")
    return tuple(names)


def _differing(before: Struct, after: Struct) -> Sequence[str]:
    fields = before.__struct_fields__
    return [name for name in fields if getattr(before, name) != getattr(after, name)]


def changed_labels(before: Client, after: Client) -> tuple[str, ...]:
    """Return the labels of the fields that differ, to translate; a name where there is no label."""
    old, new = _values(before), _values(after)
    return tuple(
        field.rule.label or field.name for name, field in FIELDS.items() if old[name] != new[name]
    )


def _values(client: Client) -> Mapping[str, object]:
    metadata = metadata_of(client)
    return {name: field.value_of(metadata) for name, field in FIELDS.items()}


def changed_values(
    before: Client, after: Client, names: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the fields of these names before and after the change, each as a short text."""
    return tuple(_display_value(_value_of(before, name)) for name in names), tuple(
        _display_value(_value_of(after, name)) for name in names
    )


def _value_of(client: Client, name: str) -> object:
    return getattr(client if name in Client.__struct_fields__ else client.openid, name)


def _display_value(value: object) -> str:
    if isinstance(value, frozenset | tuple):
        words = [str(word) for word in cast("Iterable[object]", value)]
        text = " ".join(sorted(words) if isinstance(value, frozenset) else words)
    elif value is None or isinstance(value, str | int | Scope):
        text = "" if value is None else str(value)
    else:
        # Keys are too long to be shown.
        text = "…"
    return text if len(text) <= _LONGEST_TOLD else f"{text[:_LONGEST_TOLD]}…"


def secret_faults(secret: Secret | None) -> Faults:
    """Return the errors of a secret chosen by a caller."""
    if secret is None:
        return ()
    text = secret.reveal()
    if SHORTEST_SECRET <= len(text) <= _LONGEST_SECRET and text.isascii() and text.isprintable():
        return ()
    detail = (
        f"at least {SHORTEST_SECRET} printable ASCII characters; "
        "`valetkey client secret --generate` prints a good one"
    )
    return (MetadataError("client_secret", detail),)


def _naming_faults(client: Client, new: Client) -> Faults:
    # A client with a user's grant in one sector must not learn the user's subject in another: a
    # sector without a list of its addresses is claimed by a redirect URI alone.
    before, after = client.openid, new.openid
    if before.subject_type != after.subject_type:
        return (MetadataError("subject_type", "as it was registered; register another client"),)
    if before.is_pairwise and before.sector != after.sector:
        detail = "the sector of pairwise subjects stays; register another client"
        return (MetadataError("redirect_uris", detail),)
    return ()


def client_id_faults(client_id: str) -> Faults:
    """Return why a text cannot be the id of a client."""
    plain = client_id.isascii() and client_id.isprintable() and not set(client_id) & set(' "\\<>:')
    # A subject of digits is a user's, and a client's own tokens have its id as subject.
    if plain and 0 < len(client_id) <= _LONGEST_ID and not client_id.isdigit():
        return ()
    detail = f"1 to {_LONGEST_ID} ASCII characters without spaces and colons, not digits alone"
    return (MetadataError("client_id", detail),)
