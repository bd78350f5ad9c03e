"""Store of clients, their secrets, and sightings of secrets in URLs."""

import json
from collections.abc import Sequence
from itertools import islice

from msgspec import Struct

from valetkey.authorization.model.register.client import (
    Client,
    ClientSecret,
)
from valetkey.authorization.storage.register.images import Logos
from valetkey.authorization.storage.register.usage import UsageCounters
from valetkey.authorization.storage.revision import change_token_state, hold_all, touch
from valetkey.database.engine import Connection
from valetkey.database.record import Column, Record
from valetkey.kernel.jose.key import KeySet
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace


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
        found = self.db.row(
            "SELECT id FROM clients"
            " WHERE id = :id AND disabled_at IS NULL AND generation = :generation",
            id=client.id,
            generation=client.generation,
        )
        return found is not None

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
        found = (self.find(client_id) for (client_id,) in ids)
        return [client for client in found if client is not None]

    def requiring_group(self, name: str, limit: int) -> Sequence[Client]:
        """Return at most `limit` clients that require the group of this name. Reads every row."""
        ids = self.db.rows(
            "SELECT id FROM clients WHERE replace(openid, :quoted, '') <> openid ORDER BY id",
            quoted=json.dumps(name),
        )
        named = (self.find(client_id) for (client_id,) in ids)
        found = (each for each in named if each and name in each.openid.required_groups)
        return list(islice(found, limit))

    def any_implicit(self) -> bool:
        """Return whether any enabled client is registered for the implicit grant."""
        found = self.db.row(
            "SELECT id FROM clients WHERE disabled_at IS NULL"
            " AND replace(grant_types, '\"implicit\"', '') <> grant_types LIMIT 1"
        )
        return found is not None

    def any_password(self) -> bool:
        """Return whether any enabled client is registered for the password grant."""
        found = self.db.row(
            "SELECT id FROM clients WHERE disabled_at IS NULL"
            " AND replace(grant_types, '\"password\"', '') <> grant_types LIMIT 1"
        )
        return found is not None

    def any_unsigned_requests(self) -> bool:
        """Return whether any enabled client may send unsigned request objects."""
        found = self.db.row(
            "SELECT id FROM clients WHERE disabled_at IS NULL AND replace(openid,"
            " '\"request_object_signing_alg\":\"none\"', '') <> openid LIMIT 1"
        )
        return found is not None

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
        found = _SECRETS.all(
            self.db,
            "SELECT * FROM client_secrets WHERE client_id = :client_id"
            " ORDER BY created_at DESC, id",
            client_id=client_id,
        )
        return tuple(found)


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
