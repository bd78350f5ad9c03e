"""People, as the admin API shows and takes them; no password, nothing that signs in."""

from dataclasses import dataclass
from typing import Annotated

import msgspec
from msgspec import UNSET, UnsetType

from valetkey.authorization.actions.admin.search import Dossier
from valetkey.authorization.actions.users import UserRecord
from valetkey.authorization.model.account.role import Role
from valetkey.authorization.model.account.user import User
from valetkey.authorization.operations.records import NO_CONTROLS, Moment

_Name = Annotated[str, msgspec.Meta(pattern=NO_CONTROLS, max_length=200)]
_Username = Annotated[str, msgspec.Meta(pattern=NO_CONTROLS, min_length=1, max_length=200)]
_Email = Annotated[str, msgspec.Meta(pattern=r"^[!-?A-~]+@[!-?A-~]+$", max_length=200)]


class UserShown(msgspec.Struct, frozen=True):
    """An account."""

    uid: int
    username: str
    email: str
    email_verified_at: Moment | None
    name: str
    role: Role | None
    develops: bool
    created_at: Moment
    changed_at: Moment
    disabled_at: Moment | None


class UserList(msgspec.Struct, frozen=True):
    """Accounts: newest first, or by the word that was searched."""

    items: list[UserShown]
    next: str | None


class FactorShown(msgspec.Struct, frozen=True):
    """A way to sign in."""

    kind: str
    name: str
    count: int
    since: Moment
    last_used_at: Moment | None


class SessionShown(msgspec.Struct, frozen=True):
    """A browser in which they are signed in."""

    id: str
    user_agent: str
    created_at: Moment
    last_seen_at: Moment


class UserAppShown(msgspec.Struct, frozen=True):
    """An app that they let use their account."""

    client_id: str
    name: str
    since: Moment
    last_used_at: Moment | None


class UserRead(msgspec.Struct, frozen=True):
    """An account, and what hangs on it."""

    record: UserShown
    factors: list[FactorShown]
    sessions: list[SessionShown]
    apps: list[UserAppShown]


class UserAnswer(msgspec.Struct, frozen=True):
    """An account as it is now."""

    record: UserShown


class UserWanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An account to be made. It has no password: they choose one by a mailed link."""

    username: _Username
    email: _Email
    name: _Name = ""
    email_verified: bool = True


class UserChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an account shall have; what is not said stays as it is."""

    username: _Username | UnsetType = UNSET
    email: _Email | UnsetType = UNSET
    name: _Name | UnsetType = UNSET
    email_verified: bool | UnsetType = UNSET


class RoleWanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The role that they shall have; null for none."""

    role: Role | None


class SessionsEnded(msgspec.Struct, frozen=True):
    """How many sessions ended."""

    ended: int


class Holders(msgspec.Struct, frozen=True):
    """Everybody with a role, the highest first."""

    items: list["HolderShown"]


class HolderShown(msgspec.Struct, frozen=True):
    """Somebody with a role; `protected` says that more than a password signs them in."""

    record: UserShown
    protected: bool


@dataclass(frozen=True, slots=True)
class UserState:
    """What decides which operations the console offers.

    `developer` is None where users need no permission to register apps.
    """

    dossier: Dossier
    developer: bool | None
    sends_mail: bool

    @property
    def user(self) -> User:
        """The user."""
        return self.dossier.user


def shown(user: User) -> UserShown:
    """As the API shows it."""
    return UserShown(
        user.uid,
        user.username,
        user.email,
        user.email_verified_at,
        user.name,
        user.role,
        user.develops,
        user.created_at,
        user.changed_at,
        user.disabled_at,
    )


def read(dossier: Dossier) -> UserRead:
    """The same with what hangs on it."""
    return UserRead(
        shown(dossier.user),
        [
            FactorShown(each.kind, each.name, each.count, each.since, each.last_used_at)
            for each in dossier.factors
        ],
        [
            SessionShown(each.id, each.user_agent, each.created_at, each.last_seen_at)
            for each in dossier.sessions
        ],
        [
            UserAppShown(each.client.id, each.name, each.since, each.last_used_at)
            for each in dossier.apps
        ],
    )


def changed_record(user: User, change: UserChange) -> UserRecord:
    """What the account is to be; another address is not verified unless that is said."""

    def told(value: str | UnsetType, before: str) -> str:
        return before if isinstance(value, UnsetType) else value

    email = told(change.email, user.email)
    verified = user.email_verified_at is not None and email == user.email
    if not isinstance(change.email_verified, UnsetType):
        verified = change.email_verified
    return UserRecord(
        told(change.username, user.username),
        email,
        told(change.name, user.name),
        verified,
        user.claims,
    )
