"""Provisioning by SCIM: its credentials, users and groups as one names them, and its events."""

from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.model.event.event import Event
from valetkey.authorization.model.user import Group, User
from valetkey.kernel.moment import Instant
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

    sentence = translatable("A SCIM credential was issued.")

    credential_id: str


class ScimCredentialRotated(Event, frozen=True):
    """A SCIM credential got another token; the one before works until `previous_until`."""

    sentence = translatable("A SCIM credential got a new token.")

    credential_id: str
    previous_until: int


class ScimCredentialEnded(Event, frozen=True):
    """A SCIM credential was ended."""

    sentence = translatable("A SCIM credential was revoked.")

    credential_id: str


class ScimValuesIgnored(Event, frozen=True):
    """A directory sent values of these attributes that cannot be kept; the rest was applied."""

    sentence = translatable("A directory sent values that cannot be kept: %(attributes)s.")

    affects_tokens: ClassVar[bool] = False
    unlisted: ClassVar[str] = "a problem of the directory; doctor shows it to the operator"

    credential_id: str
    attributes: tuple[str, ...]
    uid: int | None = None
    group: str | None = None


EVENTS = (ScimCredentialIssued, ScimCredentialRotated, ScimCredentialEnded, ScimValuesIgnored)
