"""The base of all events.

An event is written in the transaction that made the change. It carries no secret and no free text
from a client.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import ClassVar, NewType

from msgspec import Struct

from valetkey.kernel.text import translatable

DoneBy = NewType("DoneBy", str)
"""An actor in an event: a kind and, except for the last two kinds, an id.

`user 17`, `user 17 token at_…`, `client web1`, `scim sc_…`, `cli root`, `apply root`,
`anonymous`, `system`.
Never empty when it is stored.
"""

CLI = DoneBy("cli")
"""An operator at the command line whose system account is unknown."""

ANONYMOUS = DoneBy("anonymous")
"""An unauthenticated user or program."""

SYSTEM = DoneBy("system")
"""The server itself: a background job, or its start."""

USUAL_ACTOR = DoneBy("")
"""Stands for the operator of the store or, without one, the usual actor of each event.

A write says so itself: one that names no actor does not type-check.
"""

UNKNOWN = DoneBy("unknown")
"""The actor of events written before actors were recorded."""

StoredActor = NewType("StoredActor", str)
"""An actor as stored."""

ITS_USER = StoredActor("user")
ITS_CLIENT = StoredActor("client")
"""The user or client that the event names: stored as a short code and not indexed."""

_DIRECTORY = "scim"
_OTHERS = frozenset({"user", "cli", "apply", "owner", _DIRECTORY})


def by_user(uid: int) -> DoneBy:
    """Return the actor for a signed-in user."""
    return DoneBy(f"user {uid}")


def by_token(uid: int, token_id: str) -> DoneBy:
    """Return the actor for a program with an admin API token of a user."""
    return DoneBy(f"user {uid} token {token_id}")


def by_client(client_id: str) -> DoneBy:
    """Return the actor for a client at one of its endpoints."""
    return DoneBy(f"client {client_id}")


def by_directory(credential_id: str) -> DoneBy:
    """Return the actor for a directory that provisions users with a credential (SCIM)."""
    return DoneBy(f"{_DIRECTORY} {credential_id}")


def is_directory(done_by: DoneBy | None) -> bool:
    """Return whether a directory that provisions users is the actor."""
    return (done_by or "").partition(" ")[0] == _DIRECTORY


def by_cli(operator: str) -> DoneBy:
    """Return the actor for an operator at the command line; `operator` is the system account."""
    return DoneBy(f"cli {operator}")


def by_apply(operator: str) -> DoneBy:
    """Return the actor for an operator with a file of `valetkey apply`."""
    return DoneBy(f"apply {operator}")


def written(done_by: DoneBy, uid: int | None, client_id: str | None) -> StoredActor:
    """Return what is stored for this actor in an event of that user and that client."""
    if uid is not None and done_by == f"user {uid}":
        return ITS_USER
    if client_id is not None and done_by == f"client {client_id}":
        return ITS_CLIENT
    return StoredActor(done_by)


def read_back(text: str, uid: int | None, client_id: str | None) -> DoneBy:
    """Return the actor of a stored value; UNKNOWN for rows without one."""
    if text == ITS_USER:
        return ANONYMOUS if uid is None else by_user(uid)
    if text == ITS_CLIENT:
        return ANONYMOUS if client_id is None else by_client(client_id)
    return DoneBy(text) if text else UNKNOWN


def user_of(done_by: DoneBy) -> int | None:
    """Return the uid of the user who is the actor, also by an API token; None for other actors."""
    kind, *more = done_by.split()[:2]
    return int(more[0]) if kind == "user" and more else None


def is_other_actor(done_by: DoneBy, uid: int | None) -> bool:
    """Return whether an operator or another user did this to that user."""
    return done_by.partition(" ")[0] in _OTHERS and done_by != f"user {uid}"


_PARTICIPLE = re.compile(r"([A-Z][a-z]+(?:Up)?)$")
_BETWEEN_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])")


class ActivityKind(StrEnum):
    """The categories of recent activity."""

    SIGN_IN = "sign_in"
    SECURITY = "security"
    APPS = "apps"
    ACCOUNT = "account"


class ActivityText(Struct, frozen=True):
    """What the page of recent activity says to the user, marked for translation, in one category.

    It may hold markup; `%(name)s` is filled with the name of the app. `by_reason` has other texts
    for values of `because`.
    """

    kind: ActivityKind
    text: str
    by_reason: Mapping[str, str] = MappingProxyType({})


_NAMED = {"group": "group", "api": "identifier"}
"""The field with the name, by the kind of the object."""


class Event(Struct, frozen=True):
    """An event. Its name is that of its class: `CodeRedeemed` is `code.redeemed`.

    Its actor is the one of the transaction. For an event that also happens in transactions without
    an actor, the base class names the actor; any other event is refused there.
    """

    name: ClassVar[str]
    sentence: ClassVar[str] = ""
    """What people read, marked for translation; `%(uid)s` is filled with the field `uid`."""
    without: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """The sentence of an event in which a field is empty, by the field, marked for translation."""
    reasons: ClassVar[Mapping[str, str]] = {}
    """What people read for each value of `because`, marked for translation."""
    subject: ClassVar[str] = ""
    """The object it is about, `KIND:{FIELD}`, such as `group:{group_id}`.

    "" if it is about no more than the user and the client that it names.
    """
    is_failure: ClassVar[bool] = False
    """Whether something failed that a user, an app or the server attempted."""
    usual_actor: ClassVar[StoredActor | None] = None
    issued_by: ClassVar[str] = ""
    """The grant type with which the access token of this event was issued; "" if it tells none."""
    affects_tokens: ClassVar[bool] = True
    """Whether it may change what is answered about a token that was issued before.

    False only where that is certain: caches keep their answers then.
    """
    activity: ClassVar[ActivityText | None] = None
    """How the page of recent activity lists it, of an event about a user."""
    unlisted: ClassVar[str] = ""
    """Why that page does not list it."""
    is_alarming: ClassVar[bool] = False
    """Whether administrators are told at once, where they want to be: it should hardly happen."""

    def __init_subclass__(cls) -> None:
        cls.name = _BETWEEN_WORDS.sub("_", _PARTICIPLE.sub(r".\1", cls.__name__)).lower()

    @classmethod
    def subject_kind(cls) -> str:
        """Return the kind of the object it is about, such as `group`; "" for none."""
        return cls.subject.partition(":")[0]

    @classmethod
    def subject_field(cls) -> str:
        """Return the field with the id of that object; "" for none."""
        return cls.subject.partition(":")[2].strip("{}")

    @classmethod
    def former_name(cls, values: Mapping[str, str]) -> str:
        """Return the name of that object as an event with these values states it, or its id."""
        named = values.get(_NAMED.get(cls.subject_kind(), ""))
        return named or values.get(cls.subject_field(), "")

    @classmethod
    def sentence_of(cls, values: Mapping[str, str]) -> str:
        """Return the sentence of an event with these values."""
        empty = (text for field, text in cls.without.items() if not values.get(field))
        return next(empty, cls.sentence)

    def subject_id(self) -> str | None:
        """Return the object it is about, such as `group:gr_1`; None if it names none."""
        id_: str = getattr(self, self.subject_field(), "")
        return f"{self.subject_kind()}:{id_}" if id_ else None


class ByUser(Event, frozen=True):
    """An event done by the user it names; by an anonymous visitor where it names none."""

    usual_actor = ITS_USER


class ByClient(Event, frozen=True):
    """An event done by the client it names."""

    usual_actor = ITS_CLIENT


class ByAnonymous(Event, frozen=True):
    """An event done by an unauthenticated caller."""

    usual_actor = StoredActor(ANONYMOUS)


class BySystem(Event, frozen=True):
    """An event done by the server itself."""

    usual_actor = StoredActor(SYSTEM)


WHY_ACCESS_ENDED: Mapping[str, str] = {
    "account_secured": translatable("the account was secured"),
    "api_disabled": translatable("the API was disabled"),
    "api_removed": translatable("the API was deleted"),
    "client_disabled": translatable("the app was disabled"),
    "client_removed": translatable("the app was deleted"),
    "client_revoked": translatable("the app revoked its token"),
    "code_replayed": translatable("an authorization code was used twice"),
    "device_reused": translatable("the cookie of a remembered browser was used twice"),
    "email_restored": translatable("the previous email address was restored"),
    "factors_reset": translatable("the second factors were removed"),
    "password_changed": translatable("the password was changed"),
    "refresh_token_reused": translatable("a replaced refresh token was used"),
    "removal_planned": translatable("the account is scheduled for deletion"),
    "session_ended": translatable("the session ended"),
    "signed_in_again": translatable("the user signed in again"),
    "signed_out": translatable("the user signed out"),
    "signed_out_by_administrator": translatable("an administrator signed the user out"),
    "signed_out_elsewhere": translatable("the user signed out this browser from another one"),
    "user_disabled": translatable("the account was disabled"),
    "user_removed": translatable("the account was deleted"),
    "user_withdrew": translatable("access was revoked"),
}
"""Why a session or a grant ended, in words."""
