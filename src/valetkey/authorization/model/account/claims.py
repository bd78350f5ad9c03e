"""The standard claims of a user's profile (OpenID Connect Core section 5.1)."""

from dataclasses import dataclass
from typing import ClassVar

import msgspec


@dataclass(frozen=True, slots=True)
class Address:
    """A postal address (Core section 5.1.1); "" for absent parts."""

    formatted: str = ""
    street_address: str = ""
    locality: str = ""
    region: str = ""
    postal_code: str = ""
    country: str = ""


@dataclass(frozen=True, slots=True)
class StandardClaims:
    """All claims beyond username, name and email; "" for absent ones.

    `birthdate` is YYYY-MM-DD, YYYY, or 0000-MM-DD; `zoneinfo` a name such as Europe/Berlin;
    `locale` a language tag; `phone_number` in E.164 format.
    """

    NOTHING: ClassVar["StandardClaims"]

    given_name: str = ""
    family_name: str = ""
    middle_name: str = ""
    nickname: str = ""
    profile: str = ""
    picture: str = ""
    website: str = ""
    gender: str = ""
    birthdate: str = ""
    zoneinfo: str = ""
    locale: str = ""
    phone_number: str = ""
    phone_number_verified: bool = False
    address: Address = Address()

    def encode(self) -> str:
        """Encode for storage."""
        return "{}" if self == StandardClaims.NOTHING else msgspec.json.encode(self).decode()

    @staticmethod
    def decode(text: str) -> "StandardClaims":
        """Decode what `encode` returned, in this or an older version."""
        if text == "{}":
            return StandardClaims.NOTHING
        return msgspec.json.decode(text, type=StandardClaims)


StandardClaims.NOTHING = StandardClaims()
