"""Store of clients, their secrets, and sightings of secrets in URLs."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from valetkey.authorization.model.register.client import (
    AccessTokenFormat,
    ApplicationType,
    AuthenticationMethod,
    Client,
    ClientSecret,
    ClientType,
)
from valetkey.authorization.model.register.openid import OpenIdRegistration
from valetkey.authorization.model.register.profile import ProfileName
from valetkey.authorization.storage.register.logos import Logos
from valetkey.authorization.storage.register.usage import Usage
from valetkey.authorization.storage.revision import hold_all, touch
from valetkey.database.engine import Connection, Row
from valetkey.kernel.jose.key import KeySet
from valetkey.kernel.moment import Instant, Lifetime
from valetkey.kernel.scope import Scope
from valetkey.kernel.secret import Fingerprint


@dataclass(frozen=True, slots=True)
class QuerySighting:
    """How often a client's credentials came in a URL, and when last."""

    requests: int
    last_seen_at: Instant


@dataclass(frozen=True, slots=True)
class Clients:
    """The register of clients. Every change bumps the revision that caches compare.

    Locks are taken in this order, by every transaction: the register (`hold_all` or `touch`), users
    by uid, rows. Each change begins with `touch`, so that its rows come after the register.
    """

    db: Connection

    def find(self, client_id: str) -> Client | None:
        """Return the client with its unexpired and expired secrets, newest first."""
        row = self.db.row(
            "SELECT id, name, description, type, application_type, profile, access_token_format,"
            " access_token_lifetime, authentication_method, redirect_uris, grant_types, scope,"
            " default_scope, required_scope, key_set, requires_pkce, rotates_refresh_token,"
            " ends_with_session, logo_uri, policy_uri, tos_uri, created_at, changed_at,"
            " disabled_at, openid,"
            " (SELECT COUNT(*) FROM registrations WHERE client_id = clients.id), verified_at,"
            " (SELECT name FROM client_logos WHERE client_id = clients.id AND source = logo_uri),"
            " generation FROM clients WHERE id = :id",
            id=client_id,
        )
        return None if row is None else _client(row, self._secrets(client_id))

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
        added = self.db.run(
            "INSERT INTO clients (id, name, description, type, application_type, profile,"
            " access_token_format, access_token_lifetime, authentication_method, redirect_uris,"
            " grant_types, scope, default_scope, required_scope, key_set, requires_pkce,"
            " rotates_refresh_token, ends_with_session, logo_uri, policy_uri, tos_uri, created_at,"
            " changed_at, disabled_at, openid)"
            " VALUES (:id, :name, :description, :type, :application_type, :profile,"
            " :access_token_format, :access_token_lifetime, :authentication_method,"
            " :redirect_uris, :grant_types, :scope, :default_scope, :required_scope, :key_set,"
            " :requires_pkce, :rotates_refresh_token, :ends_with_session, :logo_uri, :policy_uri,"
            " :tos_uri, :created_at, :changed_at, :disabled_at, :openid)"
            " ON CONFLICT (id) DO NOTHING",
            created_at=client.created_at,
            **_columns(client),
        )
        Logos(self.db).want(client.id)
        return added == 1

    def hold_all(self) -> None:
        """Block issuing of tokens until the transaction ends: for changes of what is judged."""
        hold_all(self.db)

    def change(self, client: Client) -> bool:
        """Write everything about a client except its secrets; False if it is gone."""
        self.hold_all()
        self.touch()
        changed = self.db.run(
            "UPDATE clients SET name = :name, description = :description, type = :type,"
            " application_type = :application_type, profile = :profile,"
            " access_token_format = :access_token_format,"
            " access_token_lifetime = :access_token_lifetime,"
            " authentication_method = :authentication_method, redirect_uris = :redirect_uris,"
            " grant_types = :grant_types, scope = :scope, default_scope = :default_scope,"
            " required_scope = :required_scope, key_set = :key_set,"
            " requires_pkce = :requires_pkce, rotates_refresh_token = :rotates_refresh_token,"
            " ends_with_session = :ends_with_session, logo_uri = :logo_uri,"
            " policy_uri = :policy_uri, tos_uri = :tos_uri, changed_at = :changed_at,"
            " disabled_at = :disabled_at, openid = :openid"
            " WHERE id = :id",
            **_columns(client),
        )
        Logos(self.db).want(client.id)
        return changed == 1

    def verify(self, client_id: str, now: Instant) -> bool:
        """Mark the client as verified. Returns True once."""
        self.touch()
        verified = self.db.run(
            "UPDATE clients SET verified_at = :now WHERE id = :id AND verified_at IS NULL",
            id=client_id,
            now=now,
        )
        # The logo of an app that registered itself was not fetched until now.
        Logos(self.db).want(client_id)
        return verified == 1

    def unverify(self, client_id: str) -> bool:
        """Remove the verified mark. Returns True once."""
        self.touch()
        unverified = self.db.run(
            "UPDATE clients SET verified_at = NULL WHERE id = :id AND verified_at IS NOT NULL",
            id=client_id,
        )
        return unverified == 1

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
        Usage(self.db).forget_client(client_id)
        Logos(self.db).forget(client_id)
        self.db.send("DELETE FROM removals WHERE client_id = :id", id=client_id)
        self.db.send("DELETE FROM client_secrets WHERE client_id = :id", id=client_id)
        self.db.send("DELETE FROM registrations WHERE client_id = :id", id=client_id)
        self.db.send("DELETE FROM adopted_clients WHERE client_id = :id", id=client_id)
        self.db.send("DELETE FROM clients WHERE id = :id", id=client_id)
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
        return [(row[0], row[1]) for row in rows]

    def reseal_secret(self, secret_id: str, before: str, sealed: str) -> bool:
        """Replace an encrypted secret by its encryption with another key."""
        resealed = self.db.run(
            "UPDATE client_secrets SET sealed = :sealed WHERE id = :id AND sealed = :before",
            id=secret_id,
            before=before,
            sealed=sealed,
        )
        return resealed == 1

    def saw_query(self, client_id: str, now: Instant) -> None:
        """Count a request whose credentials came in the URL."""
        self.db.send(
            "INSERT INTO query_sightings (client_id, requests, last_seen_at)"
            " VALUES (:client_id, 1, :now)"
            " ON CONFLICT (client_id) DO UPDATE"
            " SET requests = query_sightings.requests + 1, last_seen_at = :now",
            client_id=client_id,
            now=now,
        )

    def query_sighting(self, client_id: str) -> QuerySighting | None:
        """Return how often that happened; None for never."""
        row = self.db.row(
            "SELECT requests, last_seen_at FROM query_sightings WHERE client_id = :client_id",
            client_id=client_id,
        )
        return None if row is None else QuerySighting(row[0], Instant(row[1]))

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
        rows = self.db.rows(
            "SELECT id, fingerprint, expires_at, sealed FROM client_secrets"
            " WHERE client_id = :client_id ORDER BY created_at DESC, id",
            client_id=client_id,
        )
        return tuple(
            ClientSecret(row[0], Fingerprint(row[1]), row[2], row[3] or "") for row in rows
        )


def _columns(client: Client) -> dict[str, object]:
    return {
        "id": client.id,
        "name": client.name,
        "description": client.description,
        "type": client.type.value,
        "application_type": client.application_type.value,
        "profile": client.profile_name.value,
        "access_token_format": client.access_token_format.value,
        "access_token_lifetime": client.access_token_lifetime,
        "authentication_method": client.authentication_method.value,
        "redirect_uris": json.dumps(client.redirect_uris),
        "grant_types": json.dumps(sorted(client.grant_types)),
        "scope": str(client.scope),
        "default_scope": str(client.default_scope),
        "required_scope": str(client.required_scope),
        "key_set": client.key_set.document().decode() if len(client.key_set) else "",
        "requires_pkce": int(client.requires_pkce),
        "rotates_refresh_token": int(client.rotates_refresh_token),
        "ends_with_session": int(client.ends_with_session),
        "logo_uri": client.logo_uri,
        "policy_uri": client.policy_uri,
        "tos_uri": client.tos_uri,
        "changed_at": client.changed_at,
        "disabled_at": client.disabled_at,
        "openid": client.openid.encode(),
    }


def _client(row: Row, secrets: tuple[ClientSecret, ...]) -> Client:
    return Client(
        id=row[0],
        name=row[1],
        description=row[2],
        type=ClientType(row[3]),
        application_type=ApplicationType(row[4]),
        profile_name=ProfileName(row[5]),
        access_token_format=AccessTokenFormat(row[6]),
        access_token_lifetime=None if row[7] is None else Lifetime(row[7]),
        authentication_method=AuthenticationMethod(row[8]),
        redirect_uris=tuple(json.loads(row[9])),
        grant_types=frozenset(json.loads(row[10])),
        scope=Scope(tuple(row[11].split())),
        default_scope=Scope(tuple(row[12].split())),
        required_scope=Scope(tuple(row[13].split())),
        key_set=KeySet.parse(row[14].encode()) if row[14] else KeySet(),
        requires_pkce=bool(row[15]),
        rotates_refresh_token=bool(row[16]),
        ends_with_session=bool(row[17]),
        logo_uri=row[18],
        policy_uri=row[19],
        tos_uri=row[20],
        created_at=Instant(row[21]),
        changed_at=Instant(row[22]),
        disabled_at=None if row[23] is None else Instant(row[23]),
        secrets=secrets,
        openid=OpenIdRegistration.decode(row[24]),
        self_registered=bool(row[25]),
        verified_at=row[26],
        logo=row[27] or "",
        generation=row[28],
    )
