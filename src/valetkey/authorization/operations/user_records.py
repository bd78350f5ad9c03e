"""Users and their groups, as the admin API shows and takes them; nothing that signs in."""

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import asdict

from valetkey.authorization.actions.admin.search import UserDetails
from valetkey.authorization.actions.users import (
    Email,
    EmailVerified,
    Name,
    PostalAddress,
    Profile,
    Username,
    UserRecord,
    UserWanted,
    changed_claims,
    described,
)
from valetkey.authorization.model.user import MOST_OF_USER, NAME, Group, Role, User, ascii_email
from valetkey.authorization.operations.operation import Line, Moment, change_of
from valetkey.authorization.protocol.register.faults import matching
from valetkey.kernel.replace import converted

_GroupName = Annotated[str, matching(f"^{NAME}$", "group.form")]
_Groups = Annotated[
    str,
    msgspec.Meta(max_length=81 * MOST_OF_USER, description="Names of groups, separated by spaces."),
]
_Parent = Annotated[str, matching(f"^({NAME})?$", "group.form")]


class UserShown(Profile, frozen=True, kw_only=True):
    """An account."""

    uid: int
    username: str
    email: str
    email_verified: bool
    email_verified_at: Moment | None
    name: str
    role: Role | None
    develops: bool
    created_at: Moment
    changed_at: Moment
    disabled_at: Moment | None
    factor_required_at: Moment | None


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
    """A browser in which they are signed in, with the IP addresses of sign-in and latest use.

    An IP address is "" if it is unknown, not recorded or erased.
    """

    id: str
    user_agent: str
    created_at: Moment
    last_seen_at: Moment
    signed_in_from: str
    last_seen_from: str


class UserAppShown(msgspec.Struct, frozen=True):
    """An app with access to the account of the user."""

    client_id: str
    name: str
    since: Moment
    last_used_at: Moment | None


class UserRead(msgspec.Struct, frozen=True):
    """An account with its sign-in methods, sessions and apps."""

    record: UserShown
    factors: list[FactorShown]
    sessions: list[SessionShown]
    apps: list[UserAppShown]


class UserAnswer(msgspec.Struct, frozen=True):
    """An account with its current data."""

    record: UserShown


class PasswordLink(StrEnum):
    """How the user of a new account receives the link that sets its first password."""

    EMAIL = "email"
    SHOW = "show"


_Link = Annotated[
    PasswordLink,
    msgspec.Meta(
        description="Issue a link that sets the first password once, within 7 days: sent by email, "
        "or in the response."
    ),
]


class NewUser(UserWanted, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new account with its groups, separated by spaces, and its role."""

    groups: _Groups = ""
    role: Annotated[Role, msgspec.Meta(description="A role in the administration.")] | None = None
    password_link: _Link | None = None


class UserMade(msgspec.Struct, frozen=True):
    """A new account; `password_link` is its link if it was asked for in the response."""

    record: UserShown
    password_link: str | None


class PasswordLinkWanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A link that sets the first password of an account."""

    password_link: _Link


class AccountSecured(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the user gets the link that sets a new password, and their email address.

    An omitted address stays as it is; it is required if it was changed in the last week. Another
    one replaces it without a notice. No link that was sent to an earlier one works any more.
    """

    password_link: Annotated[
        PasswordLink,
        msgspec.Meta(description="Send the link by email, or show it in the response."),
    ]
    email: (
        Annotated[Email, msgspec.Meta(description="The email address, if it was changed.")]
        | UnsetType
    ) = UNSET


class PasswordLinkIssued(msgspec.Struct, frozen=True):
    """The link, null if it was sent by email, and when it expires."""

    password_link: str | None
    expires_at: Moment


class UserChange(Profile, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Changes of an account; omitted fields stay as they are."""

    username: Username | UnsetType = UNSET
    email: Email | UnsetType = UNSET
    name: Annotated[Name, msgspec.Meta(description="The full name.")] | UnsetType = UNSET
    email_verified: EmailVerified | UnsetType = UNSET


class EmailChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Another email address; it is not verified until the user confirms it."""

    email: Email


class RoleWanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The new role of a user; null for none."""

    role: Role | None


class SessionsEnded(msgspec.Struct, frozen=True):
    """The number of sessions that ended."""

    ended: int


class Holders(msgspec.Struct, frozen=True):
    """The users with a role, the highest first."""

    items: list["RoleHolderShown"]


class RoleHolderShown(msgspec.Struct, frozen=True):
    """A user with a role; `protected` if a second factor or passkey is set up."""

    record: UserShown
    protected: bool


class UserState(Struct, frozen=True):
    """The account's state that decides which operations the console offers.

    `developer` is None if users need no permission to register apps.
    """

    details: UserDetails
    developer: bool | None
    sends_mail: bool

    @property
    def user(self) -> User:
        """The user."""
        return self.details.user


def shown(user: User) -> UserShown:
    """Return the user as the API shows it."""
    claims, address = asdict(user.claims), asdict(user.claims.address)
    claims["address"] = PostalAddress(**{name: part for name, part in address.items() if part})
    return converted(UserShown, user, email_verified=user.email_verified_at is not None, **claims)


def read(details: UserDetails) -> UserRead:
    """Return the user with factors, sessions and connected apps."""
    return UserRead(
        shown(details.user),
        [converted(FactorShown, factor) for factor in details.factors],
        [converted(SessionShown, session) for session in details.sessions],
        [converted(UserAppShown, app, client_id=app.client.id) for app in details.apps],
    )


def changed_record(user: User, change: UserChange) -> UserRecord:
    """Return the changed record; a new address is unverified unless stated otherwise."""

    def given_or_current(value: str | UnsetType, before: str) -> str:
        return before if isinstance(value, UnsetType) else value

    email = given_or_current(change.email, user.email)
    is_same = ascii_email(email) == ascii_email(user.email)
    verified = user.email_verified_at is not None and is_same
    if not isinstance(change.email_verified, UnsetType):
        verified = change.email_verified
    return UserRecord(
        given_or_current(change.username, user.username),
        email,
        given_or_current(change.name, user.name),
        verified,
        changed_claims(user.claims, described(change)),
    )


class GroupShown(msgspec.Struct, frozen=True):
    """A group; its members are also members of `parent`, "" for none."""

    name: str
    description: str
    parent: str
    created_at: Moment


class GroupList(msgspec.Struct, frozen=True):
    """Groups by name."""

    items: list[GroupShown]
    next: str | None


class GroupWanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A group to be created, in the group `parent` unless that is ""."""

    name: _GroupName
    description: Line = ""
    parent: _Parent = ""


GroupChange = change_of(
    GroupWanted,
    "GroupChange",
    'Changes of a group; omitted fields stay as they are. With `parent` "" it is in none.',
)


class GroupMemberShown(msgspec.Struct, frozen=True):
    """A direct member of a group."""

    uid: int
    username: str
    name: str
    since: Moment


class GroupMembers(msgspec.Struct, frozen=True):
    """Direct members by uid."""

    items: list[GroupMemberShown]
    next: str | None


class GroupsOfUser(msgspec.Struct, frozen=True):
    """The groups of a user: `direct`, and `all` with those that contain them."""

    direct: list[str]
    all: list[str]


class GroupsWanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The names of all groups with the user as a direct member, separated by spaces."""

    groups: _Groups


def group_shown(group: Group) -> GroupShown:
    """Return the group as interfaces show it."""
    return converted(GroupShown, group)
