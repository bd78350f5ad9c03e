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
    pkce_for_everyone: bool
    implicit_and_password: bool


PROFILES: Mapping[str, Profile] = {
    ProfileName.CLASSIC: Profile(
        ProfileName.CLASSIC,
        token_parameters_in_query=True,
        pkce_for_everyone=False,
        implicit_and_password=True,
    ),
    ProfileName.MODERN: Profile(
        ProfileName.MODERN,
        token_parameters_in_query=False,
        pkce_for_everyone=True,
        implicit_and_password=False,
    ),
}
