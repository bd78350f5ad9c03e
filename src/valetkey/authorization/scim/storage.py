"""SCIM: its credentials, users and groups as one names them, its events, and their store."""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Generic, TypeVar, cast

from msgspec import Struct

from valetkey.authorization.model.event.event import Event
from valetkey.authorization.model.user import Group, Uid, User, fold
from valetkey.authorization.storage.groups import GROUPS
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.storage.users import USERS
from valetkey.database.engine import Connection, Lock
from valetkey.database.record import Column, Record
from valetkey.kernel.moment import Instant, days
from valetkey.kernel.secret import Fingerprint
from valetkey.kernel.text import translatable


class ScimCredential(Struct, frozen=True):
    """A provisioning program, such as a directory, without its token."""

    id: str
    name: str
    created_at: Instant
    rotated_at: Instant | None = None
    last_used_at: Instant | None = None
    ended_at: Instant | None = None


class ScimLeftOut(Struct, frozen=True):
    """How many users and groups have values that one credential sent and that were not kept."""

    credential: str
    attributes: str
    count: int


class ScimUser(Struct, frozen=True):
    """A user with the `userName` and `externalId` of one credential; "" where it gave none.

    `left_out` names the attributes whose last values could not be kept, "" for none. `marks` holds
    `type` and `primary` of the values that were kept, by attribute, as JSON.
    """

    user: User
    user_name: str
    external_id: str
    left_out: str = ""
    marks: str = "{}"


class ScimGroup(Struct, frozen=True):
    """A group with the `displayName` and `externalId` of one credential; "" where it gave none.

    `left_out` names the attributes whose last values could not be kept, "" for none.
    """

    group: Group
    display_name: str
    external_id: str
    left_out: str = ""


class ScimCredentialIssued(Event, frozen=True):
    """A credential for provisioning by SCIM was issued."""

    subject = "scim:{credential_id}"
    sentence = translatable("The SCIM credential %(credential_id)s was issued.")

    credential_id: str


class ScimCredentialRotated(Event, frozen=True):
    """A SCIM credential got another token; the one before works until `previous_until`."""

    subject = "scim:{credential_id}"
    sentence = translatable("The SCIM credential %(credential_id)s got a new token.")

    credential_id: str
    previous_until: int


class ScimCredentialEnded(Event, frozen=True):
    """A SCIM credential was ended."""

    subject = "scim:{credential_id}"
    sentence = translatable("The SCIM credential %(credential_id)s was revoked.")

    credential_id: str


class ScimValuesIgnored(Event, frozen=True):
    """A directory sent values of these attributes that cannot be kept; the rest was applied."""

    subject = "scim:{credential_id}"
    sentence = translatable(
        "The directory %(credential_id)s sent values that cannot be kept: %(attributes)s."
    )

    affects_tokens: ClassVar[bool] = False
    unlisted: ClassVar[str] = "a problem of the directory; doctor shows it to the operator"

    credential_id: str
    attributes: tuple[str, ...]
    uid: int | None = None
    group: str | None = None


EVENTS = (ScimCredentialIssued, ScimCredentialRotated, ScimCredentialEnded, ScimValuesIgnored)


Resource = TypeVar("Resource", ScimUser, ScimGroup)
Id = TypeVar("Id", Uid, str)

_NOTED_EVERY = 60
_KEPT = days(90)
_COUNTED = 1_000_000
"""Maximum number of users or groups that a list counts."""


class ScimCredentials(Struct, frozen=True):
    """Issue, rotate and end credentials. Ended ones are kept for 90 days."""

    db: Connection

    @staticmethod
    def of(tx: Transaction) -> "ScimCredentials":
        """Return the store in this transaction."""
        return ScimCredentials(tx.db)

    def hold(self) -> None:
        """Block revocations of credentials until the transaction ends, to use one."""
        self.db.share(Lock.SCIM)

    def hold_alone(self) -> None:
        """Wait for transactions that use a credential, and block new ones, to revoke one."""
        self.db.exclude(Lock.SCIM)

    def issue(self, credential: ScimCredential, print_: Fingerprint) -> None:
        """Insert the credential."""
        _CREDENTIALS.send(
            self.db,
            "INSERT INTO scim_credentials (*, token_print) VALUES (*, :print)",
            credential,
            print=print_,
        )

    def find(self, id: str) -> ScimCredential | None:
        """Return the credential, ended or not."""
        return _CREDENTIALS.find(self.db, "SELECT * FROM scim_credentials WHERE id = :id", id=id)

    def find_by_fingerprint(self, print_: Fingerprint, now: Instant) -> ScimCredential | None:
        """Return the live credential whose token, or previous token, has this fingerprint."""
        return _CREDENTIALS.find(
            self.db,
            "SELECT * FROM scim_credentials WHERE ended_at IS NULL AND (token_print = :print"
            " OR (previous_print = :print AND previous_until > :now))",
            print=print_,
            now=now,
        )

    def usable(self, limit: int) -> Sequence[ScimCredential]:
        """Return at most `limit` live credentials, oldest first."""
        return _CREDENTIALS.all(
            self.db,
            "SELECT * FROM scim_credentials WHERE ended_at IS NULL ORDER BY created_at, id"
            " LIMIT :limit",
            limit=limit,
        )

    def rotate(self, id: str, print_: Fingerprint, until: Instant, now: Instant) -> bool:
        """Replace the token; the one before works `until` then. False if the credential ended."""
        rotated = self.db.run(
            "UPDATE scim_credentials SET previous_print = token_print, previous_until = :until,"
            " token_print = :print, rotated_at = :now WHERE id = :id AND ended_at IS NULL",
            id=id,
            print=print_,
            until=until,
            now=now,
        )
        return rotated == 1

    def end(self, id: str, now: Instant) -> bool:
        """End the credential, after `hold_alone`. Exactly one concurrent caller gets True."""
        ended = self.db.run(
            "UPDATE scim_credentials SET ended_at = :now WHERE id = :id AND ended_at IS NULL",
            id=id,
            now=now,
        )
        return ended == 1

    def note_use(self, id: str, now: Instant) -> None:
        """Record that it was used; at most once a minute."""
        self.db.send(
            "UPDATE scim_credentials SET last_used_at = :now"
            " WHERE id = :id AND (last_used_at IS NULL OR last_used_at <= :before)",
            id=id,
            now=now,
            before=now - _NOTED_EVERY,
        )

    def names_of(self, uid: Uid) -> Sequence[tuple[str, str, str]]:
        """Return what each credential calls a user: its name, `userName` and `externalId`."""
        rows = self.db.rows(
            "SELECT c.name, u.user_name, u.external_id FROM scim_users u"
            " JOIN scim_credentials c ON c.id = u.credential_id"
            " WHERE u.uid = :uid ORDER BY c.name, c.id",
            uid=uid,
        )
        return [(name, user_name, external_id) for name, user_name, external_id in rows]

    def left_out(self, limit: int) -> Sequence[ScimLeftOut]:
        """Count the users and groups of live credentials with values that were not kept.

        Looks at `limit` users and `limit` groups at most, one result for each set of attributes.
        """
        return _LEFT_OUT.all(
            self.db,
            "SELECT * FROM (SELECT credential_id, left_out FROM (SELECT credential_id, left_out"
            " FROM scim_users WHERE left_out <> '' LIMIT :limit) AS users_left_out"
            " UNION ALL SELECT credential_id, left_out FROM (SELECT credential_id, left_out"
            " FROM scim_groups WHERE left_out <> '' LIMIT :limit) AS groups_left_out) AS sent"
            " JOIN scim_credentials c ON c.id = sent.credential_id WHERE c.ended_at IS NULL"
            " GROUP BY c.name, sent.left_out ORDER BY c.name, sent.left_out",
            limit=limit,
        )

    def sweep(self, now: Instant, limit: int) -> int:
        """Delete at most `limit` names of credentials that ended 90 days ago, then these."""
        before = now - _KEPT
        gone = self.db.run(
            "DELETE FROM scim_users WHERE (credential_id, uid) IN"
            " (SELECT u.credential_id, u.uid FROM scim_credentials c"
            " JOIN scim_users u ON u.credential_id = c.id"
            " WHERE c.ended_at <= :before LIMIT :limit)",
            before=before,
            limit=limit,
        )
        gone += self.db.run(
            "DELETE FROM scim_groups WHERE (credential_id, group_id) IN"
            " (SELECT g.credential_id, g.group_id FROM scim_credentials c"
            " JOIN scim_groups g ON g.credential_id = c.id"
            " WHERE c.ended_at <= :before LIMIT :limit)",
            before=before,
            limit=limit,
        )
        return gone or self.db.run(
            "DELETE FROM scim_credentials WHERE ended_at <= :before", before=before
        )


class Kind(Struct, Generic[Resource, Id], frozen=True):
    """The statements for one kind of resource: users or groups."""

    record: Record[Resource]
    find: str
    named: str
    external: str
    page: str
    page_back: str
    every: str
    gone: str
    forget: str
    name: str


class ScimView(Struct, Generic[Resource, Id], frozen=True):
    """Users or groups as one credential sees them; removed ones are not found."""

    kind: Kind[Resource, Id]
    db: Connection
    credential: str

    def find(self, id: Id) -> Resource | None:
        """Return the resource with this id, joined with what the credential stored of it."""
        return self.kind.record.find(self.db, self.kind.find, credential=self.credential, id=id)

    def named(self, name: str) -> Id | None:
        """Return the id of the resource with this `userName` or `displayName`, in any spelling."""
        row = self.db.row(self.kind.named, credential=self.credential, key=fold(name))
        return None if row is None else cast("Id", row[0])

    def external(self, external_id: str) -> Id | None:
        """Return the id of the resource with this `externalId`, which is not ""."""
        row = self.db.row(self.kind.external, credential=self.credential, external_id=external_id)
        return None if row is None else cast("Id", row[0])

    def page(self, offset: int, limit: int, *, back: bool = False) -> Sequence[Resource]:
        """Return at most `limit` resources by id, descending if `back`, after `offset` of them."""
        return self.kind.record.all(
            self.db,
            self.kind.page_back if back else self.kind.page,
            credential=self.credential,
            limit=limit,
            offset=offset,
        )

    def count(self) -> int:
        """Count the resources, up to a million."""
        every = self.db.row(self.kind.every, limit=_COUNTED)
        gone = self.db.row(self.kind.gone, limit=_COUNTED)
        return 0 if every is None or gone is None else max(0, int(every[0]) - int(gone[0]))

    def name(self, id: Id, name: str, external_id: str, **more: str) -> bool:
        """Set the credential's name for a resource. False if it gives the name to another one.

        `more` are `left_out` and, for users, `marks`.
        """
        self.db.run(self.kind.forget, credential=self.credential, id=id)
        named = self.db.run(
            self.kind.name,
            credential=self.credential,
            id=id,
            name=name,
            key=fold(name),
            external_id=external_id,
            **more,
        )
        return named == 1


ScimUsers = ScimView[ScimUser, Uid]
ScimGroups = ScimView[ScimGroup, str]

_CREDENTIALS = Record(ScimCredential, "scim_credentials")
_LEFT_OUT = Record(
    ScimLeftOut,
    credential=Column(sql="c.name"),
    attributes=Column(sql="sent.left_out"),
    count=Column(sql="count(*)"),
)

_USERS_NAMED: Kind[ScimUser, Uid] = Kind(
    record=Record(
        ScimUser,
        user=USERS,
        user_name=Column(sql="coalesce(scim_users.user_name, '')"),
        external_id=Column(sql="coalesce(scim_users.external_id, '')"),
        left_out=Column(sql="coalesce(scim_users.left_out, '')"),
        marks=Column(sql="coalesce(scim_users.marks, '{}')"),
    ),
    find="SELECT * FROM users LEFT JOIN scim_users ON scim_users.uid = users.uid"
    " AND scim_users.credential_id = :credential"
    " WHERE users.uid = :id AND NOT EXISTS (SELECT 1 FROM account_removals"
    " WHERE account_removals.uid = users.uid AND done_at IS NOT NULL)",
    named="SELECT uid FROM scim_users WHERE credential_id = :credential AND user_name_key = :key",
    external="SELECT uid FROM scim_users WHERE credential_id = :credential"
    " AND external_id = :external_id AND external_id <> ''",
    page="SELECT * FROM users LEFT JOIN scim_users ON scim_users.uid = users.uid"
    " AND scim_users.credential_id = :credential"
    " WHERE users.uid > 0 AND NOT EXISTS (SELECT 1 FROM account_removals"
    " WHERE account_removals.uid = users.uid AND done_at IS NOT NULL)"
    " ORDER BY users.uid LIMIT :limit OFFSET :offset",
    page_back="SELECT * FROM users LEFT JOIN scim_users ON scim_users.uid = users.uid"
    " AND scim_users.credential_id = :credential"
    " WHERE users.uid > 0 AND NOT EXISTS (SELECT 1 FROM account_removals"
    " WHERE account_removals.uid = users.uid AND done_at IS NOT NULL)"
    " ORDER BY users.uid DESC LIMIT :limit OFFSET :offset",
    every="SELECT count(*) FROM (SELECT uid FROM users LIMIT :limit) AS counted",
    gone="SELECT count(*) FROM (SELECT uid FROM account_removals"
    " WHERE done_at IS NOT NULL ORDER BY done_at LIMIT :limit) AS counted",
    forget="DELETE FROM scim_users WHERE credential_id = :credential AND uid = :id",
    name="INSERT INTO scim_users"
    " (credential_id, uid, user_name, user_name_key, external_id, left_out, marks)"
    " VALUES (:credential, :id, :name, :key, :external_id, :left_out, :marks)"
    " ON CONFLICT DO NOTHING",
)
_GROUPS_NAMED: Kind[ScimGroup, str] = Kind(
    record=Record(
        ScimGroup,
        group=GROUPS,
        display_name=Column(sql="coalesce(scim_groups.display_name, '')"),
        external_id=Column(sql="coalesce(scim_groups.external_id, '')"),
        left_out=Column(sql="coalesce(scim_groups.left_out, '')"),
    ),
    find="SELECT * FROM user_groups LEFT JOIN scim_groups ON scim_groups.group_id = user_groups.id"
    " AND scim_groups.credential_id = :credential"
    " WHERE user_groups.id = :id AND user_groups.deleted_at IS NULL",
    named="SELECT group_id FROM scim_groups WHERE credential_id = :credential"
    " AND display_name_key = :key",
    external="SELECT group_id FROM scim_groups WHERE credential_id = :credential"
    " AND external_id = :external_id AND external_id <> ''",
    page="SELECT * FROM user_groups LEFT JOIN scim_groups ON scim_groups.group_id = user_groups.id"
    " AND scim_groups.credential_id = :credential"
    " WHERE user_groups.id > '' AND user_groups.deleted_at IS NULL"
    " ORDER BY user_groups.id LIMIT :limit OFFSET :offset",
    page_back="SELECT * FROM user_groups LEFT JOIN scim_groups"
    " ON scim_groups.group_id = user_groups.id AND scim_groups.credential_id = :credential"
    " WHERE user_groups.id > '' AND user_groups.deleted_at IS NULL"
    " ORDER BY user_groups.id DESC LIMIT :limit OFFSET :offset",
    every="SELECT count(*) FROM (SELECT id FROM user_groups LIMIT :limit) AS counted",
    gone="SELECT count(*) FROM (SELECT id FROM user_groups"
    " WHERE deleted_at IS NOT NULL LIMIT :limit) AS counted",
    forget="DELETE FROM scim_groups WHERE credential_id = :credential AND group_id = :id",
    name="INSERT INTO scim_groups"
    " (credential_id, group_id, display_name, display_name_key, external_id, left_out)"
    " VALUES (:credential, :id, :name, :key, :external_id, :left_out) ON CONFLICT DO NOTHING",
)


def scim_users(tx: Transaction, credential: str) -> ScimUsers:
    """Return the users as this credential names them."""
    return ScimView(_USERS_NAMED, tx.db, credential)


def scim_groups(tx: Transaction, credential: str) -> ScimGroups:
    """Return the groups as this credential names them."""
    return ScimView(_GROUPS_NAMED, tx.db, credential)


def delete_of_user(db: Connection, uid: Uid) -> None:
    """Delete the names of a user."""
    db.run("DELETE FROM scim_users WHERE uid = :uid", uid=uid)


def delete_of_group(db: Connection, group_id: str) -> None:
    """Delete the names of a group, so that another one can have them."""
    db.run("DELETE FROM scim_groups WHERE group_id = :id", id=group_id)


def exported(tx: Transaction, uid: Uid) -> Mapping[str, object]:
    """Return what each directory calls a user."""
    names = ScimCredentials.of(tx).names_of(uid)
    return {
        "directories": [
            {"name": name, "user_name": user_name, "external_id": external_id}
            for name, user_name, external_id in names
        ]
    }


def directory_name(tx: Transaction, credential_id: str) -> str:
    """Return the name of the directory with this credential, ended or not; "" for none."""
    credential = ScimCredentials.of(tx).find(credential_id) if credential_id else None
    return "" if credential is None else credential.name
