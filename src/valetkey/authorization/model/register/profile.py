"""Profiles: how strict the protocol is for a client."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class ProfileName(StrEnum):
    """The profiles."""

    CLASSIC = "classic"
    MODERN = "modern"


@dataclass(frozen=True, slots=True)
class Profile:
    """What a profile allows and requires."""

    name: ProfileName
    token_parameters_in_query: bool
    #: Confidential clients need PKCE or, in an OpenID Connect request, `nonce` (RFC 9700 2.1.1).
    pkce_or_nonce: bool
    implicit_and_password: bool


PROFILES: Mapping[str, Profile] = {
    ProfileName.CLASSIC: Profile(
        ProfileName.CLASSIC,
        token_parameters_in_query=True,
        pkce_or_nonce=False,
        implicit_and_password=True,
    ),
    ProfileName.MODERN: Profile(
        ProfileName.MODERN,
        token_parameters_in_query=False,
        pkce_or_nonce=True,
        implicit_and_password=False,
    ),
}
