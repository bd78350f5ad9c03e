"""Stores of clients: their secrets, sightings of secrets in URLs, and self-registration."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from msgspec import Struct

from valetkey.authorization.model.client import Client, ClientSecret
from valetkey.authorization.storage.images import Logos
from valetkey.authorization.storage.revision import change_token_state, hold_all, touch
from valetkey.authorization.storage.usage import UsageCounters
from valetkey.database.engine import Connection
from valetkey.database.record import Column, Record
from valetkey.kernel.jose.key import KeySet
from valetkey.kernel.moment import Instant, days
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import Fingerprint


class QueryCredentialUse(Struct, frozen=True):
    """The requests with a client's credentials in the URL: their number and the last time."""

    requests: int
    last_seen_at: Instant


class Clients(Struct, frozen=True):
    """The register of clients. Every change bumps the revision that caches compare.

    Locks are taken in this order, by every transaction: the register (`hold_all` or `touch`), users
    by uid, rows. Each change begins with `touch`, so that its rows come after the register.
    """

    db: Connection

    def find(self, client_id: str) -> Client | None:
        """Return the client with its unexpired and expired secrets, newest first."""
        client = _CLIENTS.find(self.db, "SELECT * FROM clients WHERE id = :id", id=client_id)
        return None if client is None else replace(client, secrets=self._secrets(client_id))

    def name_of(self, client_id: str) -> str:
        """Return the client's name; "" if it has none or is gone."""
        row = self.db.row("SELECT name FROM clients WHERE id = :id", id=client_id)
        return "" if row is None else str(row[0])

    def is_on(self, client: Client) -> bool:
        """Return whether the client is enabled and was never disabled since it was read."""
        row = self.db.row(
            "SELECT id FROM clients"
            " WHERE id = :id AND disabled_at IS NULL AND generation = :generation",
            id=client.id,
            generation=client.generation,
        )
        return row is not None

    def begin_generation(self, client_id: str) -> int:
        """End everything that was issued to it; return the number of the new generation."""
        self.hold_all()
        self.touch()
        row = self.db.row(
            "UPDATE clients SET generation = generation + 1 WHERE id = :id RETURNING generation",
            id=client_id,
        )
        return 0 if row is None else int(row[0])

    def find_to_change(self, client_id: str) -> Client | None:
        """Call `hold_all` and return the client, locked against other changes."""
        self.hold_all()
        return self.find_held(client_id)

    def find_held(self, client_id: str) -> Client | None:
        """Return the client, its row locked until the transaction ends.

        For changes of what belongs to it, such as its secrets or its team: tokens are issued
        meanwhile. A transaction that calls `touch` must do so first.
        """
        # A row that is read without a lock and written back would undo concurrent changes.
        self.db.run("UPDATE clients SET changed_at = changed_at WHERE id = :id", id=client_id)
        return self.find(client_id)

    def page(self, after: str, limit: int) -> Sequence[Client]:
        """Return at most `limit` clients in the order of their ids, after `after`."""
        ids = self.db.rows(
            "SELECT id FROM clients WHERE id > :after ORDER BY id LIMIT :limit",
            after=after,
            limit=limit,
        )
        clients = (self.find(client_id) for (client_id,) in ids)
        return [client for client in clients if client is not None]

    def requiring_group(self, name: str, limit: int) -> Sequence[Client]:
        """Return at most `limit` clients that require the group of this name. Reads every row."""
        ids = self.db.rows(
            "SELECT id FROM clients WHERE replace(openid, :quoted, '') <> openid ORDER BY id",
            quoted=json.dumps(name),
        )
        named = (self.find(client_id) for (client_id,) in ids)
        clients = (client for client in named if client and name in client.openid.required_groups)
        return list(islice(clients, limit))

    def any_implicit(self) -> bool:
        """Return whether any enabled client is registered for the implicit grant."""
        row = self.db.row(
            "SELECT id FROM clients WHERE disabled_at IS NULL"
            " AND replace(grant_types, '\"implicit\"', '') <> grant_types LIMIT 1"
        )
        return row is not None

    def any_password(self) -> bool:
        """Return whether any enabled client is registered for the password grant."""
        row = self.db.row(
            "SELECT id FROM clients WHERE disabled_at IS NULL"
            " AND replace(grant_types, '\"password\"', '') <> grant_types LIMIT 1"
        )
        return row is not None

    def any_unsigned_requests(self) -> bool:
        """Return whether any enabled client may send unsigned request objects."""
        row = self.db.row(
            "SELECT id FROM clients WHERE disabled_at IS NULL AND replace(openid,"
            " '\"request_object_signing_alg\":\"none\"', '') <> openid LIMIT 1"
        )
        return row is not None

    def verified_names(self, but: str) -> Sequence[str]:
        """Return the names of the verified apps, except the client `but`."""
        rows = self.db.rows(
            "SELECT name FROM clients WHERE verified_at > 0 AND id <> :but",
            but=but,
        )
        return [row[0] for row in rows]

    def register(self, client: Client) -> bool:
        """Add a client; False if the id is taken."""
        self.touch()
        added = _CLIENTS.run(
            self.db, "INSERT INTO clients (*) VALUES (*) ON CONFLICT (id) DO NOTHING", client
        )
        Logos(self.db).enqueue(client.id)
        return added == 1

    def hold_all(self) -> None:
        """Block issuing of tokens until the transaction ends: for changes of what is judged."""
        hold_all(self.db)

    def change(self, client: Client) -> bool:
        """Write everything about a client except its secrets; False if it is gone."""
        self.hold_all()
        self.touch()
        changed = _CLIENTS.run(self.db, "UPDATE clients SET * WHERE id = :id", client)
        Logos(self.db).enqueue(client.id)
        return changed == 1

    def verify(self, client_id: str, now: Instant) -> bool:
        """Mark the client as verified. Return True once."""
        self.touch()
        verified = self.db.run(
            "UPDATE clients SET verified_at = :now WHERE id = :id AND verified_at IS NULL",
            id=client_id,
            now=now,
        )
        # The logo of an app that registered itself was not fetched until now.
        Logos(self.db).enqueue(client_id)
        return verified == 1

    def unverify(self, client_id: str) -> bool:
        """Remove the verified mark. Return True once."""
        self.touch()
        unverified = self.db.run(
            "UPDATE clients SET verified_at = NULL WHERE id = :id AND verified_at IS NOT NULL",
            id=client_id,
        )
        return unverified == 1

    def release_id(self, client_id: str) -> None:
        """Let an id be registered again after its client was removed.

        Only for an id that no other client can have: its URL.
        """
        self.touch()
        self.db.send("DELETE FROM removed_clients WHERE id = :id", id=client_id)

    def start_generation(self, client_id: str, now: Instant) -> None:
        """Begin with a generation that no earlier client of this id can have reached."""
        self.db.send("UPDATE clients SET generation = :now WHERE id = :id", id=client_id, now=now)

    def was_removed(self, client_id: str) -> bool:
        """Return whether a client of this id was removed."""
        row = self.db.row("SELECT id FROM removed_clients WHERE id = :id", id=client_id)
        return row is not None

    def remove(self, client_id: str, now: Instant) -> None:
        """Delete a client that `Endings.delete_rows` has emptied; its id is never reused.

        Raises ConstraintViolated if something new was just issued to it.
        """
        self.touch()
        self.db.send("DELETE FROM query_sightings WHERE client_id = :id", id=client_id)
        self.db.send("DELETE FROM memberships WHERE client_id = :id", id=client_id)
        self.db.send("DELETE FROM team_invitations WHERE client_id = :id", id=client_id)
        UsageCounters(self.db).delete_client(client_id)
        Logos(self.db).delete(client_id)
        self.db.send("DELETE FROM removals WHERE client_id = :id", id=client_id)
        self.db.send("DELETE FROM client_secrets WHERE client_id = :id", id=client_id)
        self.db.send("DELETE FROM registrations WHERE client_id = :id", id=client_id)
        self.db.send("DELETE FROM adopted_clients WHERE client_id = :id", id=client_id)
        self.db.send("DELETE FROM clients WHERE id = :id", id=client_id)
        # A sweep of unused clients writes no event.
        change_token_state(self.db)
        self.db.send(
            "INSERT INTO removed_clients (id, removed_at) VALUES (:id, :now)"
            " ON CONFLICT (id) DO NOTHING",
            id=client_id,
            now=now,
        )

    def touch(self) -> None:
        """Make every cache reload; other changes of the register wait for this transaction.

        Call it before any row is locked.
        """
        touch(self.db)

    def add_secret(self, client_id: str, secret: ClientSecret, now: Instant) -> None:
        """Add a secret that the client can authenticate with."""
        self.touch()
        self.db.run(
            "INSERT INTO client_secrets (id, client_id, fingerprint, created_at, expires_at,"
            " sealed) VALUES (:id, :client_id, :fingerprint, :now, :expires_at, :sealed)",
            id=secret.id,
            client_id=client_id,
            fingerprint=secret.fingerprint,
            expires_at=secret.expires_at,
            sealed=secret.sealed or None,
            now=now,
        )

    def end_secret(self, client_id: str, secret_id: str, now: Instant) -> bool:
        """Revoke one of its secrets. Exactly one concurrent caller gets True."""
        self.touch()
        ended = self.db.run(
            "UPDATE client_secrets SET expires_at = :now WHERE id = :id"
            " AND client_id = :client_id AND (expires_at IS NULL OR expires_at > :now)",
            id=secret_id,
            client_id=client_id,
            now=now,
        )
        return ended == 1

    def expire_other_secrets(self, client_id: str, keep: str, at: Instant) -> int:
        """Make every secret but `keep` expire at `at`, unless it expires earlier."""
        self.touch()
        return self.db.run(
            "UPDATE client_secrets SET expires_at = :at"
            " WHERE client_id = :client_id AND id <> :keep"
            " AND (expires_at IS NULL OR expires_at > :at)",
            client_id=client_id,
            keep=keep,
            at=at,
        )

    def sealed_secrets(self) -> Sequence[tuple[str, str]]:
        """Return the id and the encrypted text of every secret stored encrypted."""
        rows = self.db.rows("SELECT id, sealed FROM client_secrets WHERE sealed IS NOT NULL")
        return [(id_, sealed) for id_, sealed in rows]

    def reseal_secret(self, secret_id: str, before: str, sealed: str) -> bool:
        """Replace an encrypted secret by its encryption with another key."""
        resealed = self.db.run(
            "UPDATE client_secrets SET sealed = :sealed WHERE id = :id AND sealed = :before",
            id=secret_id,
            before=before,
            sealed=sealed,
        )
        return resealed == 1

    def count_query_credentials(self, client_id: str, now: Instant) -> None:
        """Count a request whose credentials came in the URL."""
        self.db.send(
            "INSERT INTO query_sightings (client_id, requests, last_seen_at)"
            " VALUES (:client_id, 1, :now)"
            " ON CONFLICT (client_id) DO UPDATE"
            " SET requests = query_sightings.requests + 1, last_seen_at = :now",
            client_id=client_id,
            now=now,
        )

    def query_credential_use(self, client_id: str) -> QueryCredentialUse | None:
        """Return how often that happened; None for never."""
        row = self.db.row(
            "SELECT requests, last_seen_at FROM query_sightings WHERE client_id = :client_id",
            client_id=client_id,
        )
        return None if row is None else QueryCredentialUse(*row)

    def query_credential_uses(self, limit: int) -> Sequence[tuple[str, QueryCredentialUse]]:
        """Return at most `limit` enabled clients to which that happened, the latest first."""
        rows = self.db.rows(
            "SELECT seen.client_id, seen.requests, seen.last_seen_at FROM query_sightings AS seen"
            " JOIN clients ON clients.id = seen.client_id WHERE clients.disabled_at IS NULL"
            " ORDER BY seen.last_seen_at DESC, seen.client_id LIMIT :limit",
            limit=limit,
        )
        return [(client_id, QueryCredentialUse(requests, at)) for client_id, requests, at in rows]

    def sweep_secrets(self, now: Instant, limit: int) -> int:
        """Delete at most `limit` secrets that ended."""
        return self.db.run(
            "DELETE FROM client_secrets WHERE id IN"
            " (SELECT id FROM client_secrets WHERE expires_at <= :now"
            " ORDER BY expires_at LIMIT :limit)",
            now=now,
            limit=limit,
        )

    def _secrets(self, client_id: str) -> tuple[ClientSecret, ...]:
        secrets = _SECRETS.all(
            self.db,
            "SELECT * FROM client_secrets WHERE client_id = :client_id"
            " ORDER BY created_at DESC, id",
            client_id=client_id,
        )
        return tuple(secrets)


_SECRETS = Record(
    ClientSecret, "client_secrets", sealed=Column(sql="COALESCE(client_secrets.sealed, '')")
)


def _list(text: str) -> tuple[str, ...]:
    return tuple(json.loads(text))


def _set(text: str) -> frozenset[str]:
    return frozenset(json.loads(text))


def _sorted(names: frozenset[str]) -> str:
    return json.dumps(sorted(names))


def _key_set(text: str) -> KeySet:
    return KeySet.parse(text.encode()) if text else KeySet()


def _keys(key_set: KeySet) -> str:
    return key_set.document().decode() if len(key_set) else ""


def _no_secrets(_: str) -> tuple[ClientSecret, ...]:
    return ()


_CLIENTS = Record(
    Client,
    "clients",
    profile_name=Column("profile"),
    redirect_uris=Column(read=_list, write=json.dumps),
    grant_types=Column(read=_set, write=_sorted),
    key_set=Column(read=_key_set, write=_keys),
    secrets=Column(sql="''", read=_no_secrets),
    self_registered=Column(sql="EXISTS (SELECT 1 FROM registrations WHERE client_id = clients.id)"),
    verified_at=Column(sql="clients.verified_at"),
    logo=Column(
        sql="COALESCE((SELECT client_logos.name FROM client_logos"
        " WHERE client_logos.client_id = clients.id AND source = logo_uri), '')"
    ),
    generation=Column(sql="clients.generation"),
)


class SecretSummary(Struct, frozen=True):
    """A live secret, identified by its last letters; "" if they were not stored."""

    id: str
    created_at: Instant
    expires_at: Instant | None
    last_used_at: Instant | None
    ending: str


class Secrets(Struct, frozen=True):
    """Display data of secrets; nothing here takes part in authentication."""

    db: Connection

    def usable(self, client_id: str, now: Instant) -> Sequence[SecretSummary]:
        """Return the live secrets, newest first."""
        return _SUMMARIES.all(
            self.db,
            "SELECT * FROM client_secrets"
            " WHERE client_id = :client_id AND (expires_at IS NULL OR expires_at > :now)"
            " ORDER BY created_at DESC, id",
            client_id=client_id,
            now=now,
        )

    def save_last_letters(self, secret_id: str, ending: str) -> None:
        """Store the last letters of a secret that was created here."""
        self.db.run(
            "UPDATE client_secrets SET ending = :ending WHERE id = :id",
            id=secret_id,
            ending=ending,
        )

    def note_uses(self, uses: Mapping[str, Instant]) -> None:
        """Record the last use of each secret, unless a later one is known."""
        for secret_id, at in uses.items():
            self.db.run(
                "UPDATE client_secrets SET last_used_at = :at"
                " WHERE id = :id AND (last_used_at IS NULL OR last_used_at < :at)",
                id=secret_id,
                at=at,
            )


_SUMMARIES = Record(SecretSummary, "client_secrets")


_NOTED_EVERY = days(1)


class DocumentRead(Struct, frozen=True):
    """The fingerprint of a client's metadata document, and until when it need not be fetched."""

    print: Fingerprint
    fresh_until: Instant


@dataclass(frozen=True, slots=True)
class Registrations:
    """Store self-registrations, one row for each client until it is deleted."""

    db: Connection

    def add(
        self,
        client_id: str,
        token: Fingerprint,
        metadata: Fingerprint,
        now: Instant,
        document: DocumentRead | None = None,
        *,
        counted: str = "",
    ) -> None:
        """Record that the client registered itself, with the appearance `metadata`.

        `document` is that of a client whose id is the URL of it, `counted` the rate limit that
        counts the registration.
        """
        self.db.send(
            "INSERT INTO registrations (client_id, token_print, metadata_print, created_at,"
            " active_at, used, document_print, fresh_until, counted) VALUES (:client_id, :token,"
            " :metadata, :now, :now, 0, :document, :fresh_until, :counted)",
            client_id=client_id,
            token=token,
            metadata=metadata,
            now=now,
            document=None if document is None else document.print,
            fresh_until=None if document is None else document.fresh_until,
            counted=counted,
        )

    def end_count(self, client_id: str) -> tuple[str, Instant] | None:
        """Return the rate limit that counts the registration, and when it was made.

        Exactly one concurrent caller gets them; None for all others and afterwards.
        """
        row = self.db.row(
            "SELECT counted, created_at FROM registrations"
            " WHERE client_id = :client_id AND counted <> ''",
            client_id=client_id,
        )
        if row is None:
            return None
        uncounted = self.db.run(
            "UPDATE registrations SET counted = '' WHERE client_id = :client_id AND counted <> ''",
            client_id=client_id,
        )
        return (row[0], Instant(row[1])) if uncounted == 1 else None

    def document_of(self, client_id: str) -> DocumentRead | None:
        """Return what was last read at the URL that is the client's id; None for other clients."""
        row = self.db.row(
            "SELECT document_print, fresh_until FROM registrations"
            " WHERE client_id = :client_id AND fresh_until IS NOT NULL AND removed_at IS NULL",
            client_id=client_id,
        )
        return None if row is None else DocumentRead(Fingerprint(row[0]), Instant(row[1]))

    def renew_document(self, client_id: str, read: DocumentRead) -> bool:
        """Record that the document was read again; False unless it is the one that was."""
        renewed = self.db.run(
            "UPDATE registrations SET fresh_until = :fresh_until"
            " WHERE client_id = :client_id AND document_print = :document",
            client_id=client_id,
            document=read.print,
            fresh_until=read.fresh_until,
        )
        return renewed == 1

    def replace_document(self, client_id: str, read: DocumentRead) -> None:
        """Record that another document was read."""
        self.db.send(
            "UPDATE registrations SET document_print = :document, fresh_until = :fresh_until"
            " WHERE client_id = :client_id AND fresh_until IS NOT NULL",
            client_id=client_id,
            document=read.print,
            fresh_until=read.fresh_until,
        )

    def has_documents(self, most: int) -> bool:
        """Return whether there are at least `most` clients whose id is the URL of a document."""
        row = self.db.row(
            "SELECT client_id FROM registrations"
            " WHERE fresh_until IS NOT NULL AND removed_at IS NULL"
            " ORDER BY created_at LIMIT 1 OFFSET :others",
            others=most - 1,
        )
        return row is not None

    def unused_documents(self, before: Instant, limit: int) -> Sequence[str]:
        """Return the ids of the oldest such clients that were not used, known since `before`."""
        rows = self.db.rows(
            "SELECT client_id FROM registrations"
            " WHERE fresh_until IS NOT NULL AND removed_at IS NULL AND used = 0"
            " AND created_at <= :before AND NOT EXISTS (SELECT 1 FROM clients"
            " WHERE clients.id = client_id AND disabled_at IS NOT NULL)"
            " ORDER BY created_at LIMIT :limit",
            before=before,
            limit=limit,
        )
        return [row[0] for row in rows]

    def token_of(self, client_id: str) -> Fingerprint | None:
        """Return the fingerprint of the client's registration access token; None without one."""
        row = self.db.row(
            "SELECT token_print FROM registrations"
            " WHERE client_id = :client_id AND removed_at IS NULL",
            client_id=client_id,
        )
        return None if row is None else Fingerprint(row[0])

    def describe(self, client_id: str, metadata: Fingerprint) -> None:
        """Replace the recorded appearance."""
        self.db.send(
            "UPDATE registrations SET metadata_print = :metadata WHERE client_id = :client_id",
            client_id=client_id,
            metadata=metadata,
        )

    def note_use(self, client_id: str, now: Instant) -> None:
        """Record that it was used today."""
        self.db.send(
            "UPDATE registrations SET used = 1, active_at = :now"
            " WHERE client_id = :client_id AND (used = 0 OR active_at <= :before)",
            client_id=client_id,
            now=now,
            before=now - _NOTED_EVERY,
        )

    def unused_alike(self, metadata: Fingerprint) -> Sequence[tuple[str, Instant]]:
        """Return unused clients with the appearance `metadata`, oldest first: id and creation."""
        rows = self.db.rows(
            "SELECT client_id, created_at FROM registrations"
            " WHERE metadata_print = :metadata AND used = 0 AND removed_at IS NULL"
            " ORDER BY created_at, client_id",
            metadata=metadata,
        )
        return [(client_id, created_at) for client_id, created_at in rows]

    def idle(self, before: Instant, limit: int) -> Sequence[str]:
        """Return the ids of at most `limit` clients not used since `before`.

        A disabled client whose id is a URL is none of them: it would come back by itself.
        """
        rows = self.db.rows(
            "SELECT client_id FROM registrations"
            " WHERE active_at <= :before AND removed_at IS NULL"
            " AND (fresh_until IS NULL OR NOT EXISTS (SELECT 1 FROM clients"
            " WHERE clients.id = client_id AND disabled_at IS NOT NULL)) LIMIT :limit",
            before=before,
            limit=limit,
        )
        return [row[0] for row in rows]

    def removed(self, before: Instant, limit: int) -> Sequence[str]:
        """Return the ids of at most `limit` clients that ended before `before` and still exist."""
        rows = self.db.rows(
            "SELECT client_id FROM registrations WHERE removed_at <= :before LIMIT :limit",
            before=before,
            limit=limit,
        )
        return [row[0] for row in rows]

    def end(self, client_id: str, now: Instant) -> bool:
        """End the registration. Exactly one concurrent caller gets True."""
        ended = self.db.run(
            "UPDATE registrations SET removed_at = :now"
            " WHERE client_id = :client_id AND removed_at IS NULL",
            client_id=client_id,
            now=now,
        )
        return ended == 1

    def end_unused(self, client_id: str, now: Instant) -> bool:
        """End the registration unless it was used meanwhile. Exactly one caller gets True."""
        ended = self.db.run(
            "UPDATE registrations SET removed_at = :now"
            " WHERE client_id = :client_id AND removed_at IS NULL AND used = 0",
            client_id=client_id,
            now=now,
        )
        return ended == 1

    def end_idle(self, client_id: str, before: Instant, now: Instant) -> bool:
        """End the registration unless it was used since `before`. Exactly one caller gets True."""
        ended = self.db.run(
            "UPDATE registrations SET removed_at = :now"
            " WHERE client_id = :client_id AND removed_at IS NULL AND active_at <= :before",
            client_id=client_id,
            before=before,
            now=now,
        )
        return ended == 1

    def adopt(self, client_id: str, now: Instant) -> bool:
        """Make it the operator's own: without a registration token, and never ended when idle."""
        adopted = self.db.run(
            "DELETE FROM registrations WHERE client_id = :client_id AND removed_at IS NULL",
            client_id=client_id,
        )
        if adopted:
            self.db.send(
                "INSERT INTO adopted_clients (client_id, adopted_at) VALUES (:client_id, :now)"
                " ON CONFLICT (client_id) DO NOTHING",
                client_id=client_id,
                now=now,
            )
        return adopted == 1

    def is_adopted(self, client_id: str) -> bool:
        """Return whether it registered itself and was adopted by the operator."""
        row = self.db.row(
            "SELECT client_id FROM adopted_clients WHERE client_id = :client_id",
            client_id=client_id,
        )
        return row is not None
