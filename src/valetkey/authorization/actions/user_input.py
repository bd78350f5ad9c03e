"""The fields of a new account, as files and the admin API describe it, without credentials."""

from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import asdict

from valetkey.authorization.actions.users import UserRecord
from valetkey.authorization.model.user import LARGEST_UID, StandardClaims
from valetkey.authorization.protocol.register.faults import NO_CONTROLS
from valetkey.kernel.replace import replace

Name = Annotated[str, msgspec.Meta(pattern=NO_CONTROLS, max_length=200)]
Username = Annotated[str, msgspec.Meta(pattern=NO_CONTROLS, min_length=1, max_length=200)]
Email = Annotated[str, msgspec.Meta(pattern=r"^[^\s@]+@[^\s@]+$", max_length=200)]
_Uid = Annotated[
    int, msgspec.Meta(ge=1, le=LARGEST_UID, description="Identifies the user; random by default.")
]


def _text(description: str, longest: int = 2_000) -> msgspec.Meta:
    return msgspec.Meta(pattern=NO_CONTROLS, max_length=longest, description=description)


class PostalAddress(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A postal address (OpenID Connect Core section 5.1.1)."""

    formatted: (
        Annotated[str, msgspec.Meta(max_length=1_000, description="The address as on an envelope.")]
        | UnsetType
    ) = UNSET
    street_address: Annotated[str, msgspec.Meta(max_length=1_000)] | UnsetType = UNSET
    locality: Name | UnsetType = UNSET
    region: Name | UnsetType = UNSET
    postal_code: Name | UnsetType = UNSET
    country: Name | UnsetType = UNSET


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The standard claims of a user (OpenID Connect Core section 5.1); "" for absent ones."""

    given_name: Name | UnsetType = UNSET
    family_name: Name | UnsetType = UNSET
    middle_name: Name | UnsetType = UNSET
    nickname: Name | UnsetType = UNSET
    profile: Annotated[str, _text("URL of the user's profile page.")] | UnsetType = UNSET
    picture: Annotated[str, _text("URL of a picture of the user.")] | UnsetType = UNSET
    website: Annotated[str, _text("URL of the user's own website.")] | UnsetType = UNSET
    gender: Name | UnsetType = UNSET
    birthdate: Annotated[str, _text("YYYY-MM-DD, YYYY, or 0000-MM-DD.", 10)] | UnsetType = UNSET
    zoneinfo: Annotated[str, _text("Time zone, such as Europe/London.")] | UnsetType = UNSET
    locale: Annotated[str, _text("Language, such as en-GB.")] | UnsetType = UNSET
    phone_number: Annotated[str, _text("In E.164 format, such as +442079460000.")] | UnsetType = (
        UNSET
    )
    phone_number_verified: (
        Annotated[bool, msgspec.Meta(description="Whether the phone number is the user's.")]
        | UnsetType
    ) = UNSET
    address: PostalAddress | UnsetType = UNSET


EmailVerified = Annotated[bool, msgspec.Meta(description="Whether the address is the user's.")]


class UserWanted(Profile, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new account. Through the API it has no password: the user sets one by email."""

    username: Username
    email: Annotated[
        Email,
        msgspec.Meta(description="The user can sign in with it as well as with the username."),
    ]
    name: Annotated[Name, msgspec.Meta(description="The full name.")] = ""
    email_verified: EmailVerified | UnsetType = UNSET
    uid: _Uid | UnsetType = UNSET


def wanted_record(wanted: UserWanted) -> UserRecord:
    """Return the record of a new account. Its address is verified unless stated otherwise."""
    verified = True if isinstance(wanted.email_verified, UnsetType) else wanted.email_verified
    claims = changed_claims(StandardClaims.NOTHING, described(wanted))
    return UserRecord(wanted.username, wanted.email, wanted.name, verified, claims)


def changed_claims(before: StandardClaims, said: Mapping[str, object]) -> StandardClaims:
    """Return the claims with those of `said` replaced, unchecked; an address by its parts.

    A new phone number is verified only if stated.
    """
    names = StandardClaims.__struct_fields__
    told = {name: value for name, value in said.items() if name in names}
    parts = msgspec.convert(told.pop("address", {}), dict[str, str])
    address = asdict(before.address) | parts
    after = msgspec.convert({**asdict(before), **told, "address": address}, StandardClaims)
    if "phone_number_verified" in told or after.phone_number == before.phone_number:
        return after
    return replace(after, phone_number_verified=False)


def described(profile: Profile) -> Mapping[str, object]:
    """Return the fields that are stated."""
    said: dict[str, object] = msgspec.to_builtins(profile)
    return said
