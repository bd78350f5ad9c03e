"""What a person's record says about them: the standard claims (OpenID Connect Core section 5.1)."""

from dataclasses import dataclass
from typing import ClassVar

import msgspec


@dataclass(frozen=True, slots=True)
class Address:
    """A postal address (Core section 5.1.1); "" for what was not said."""

    formatted: str = ""
    street_address: str = ""
    locality: str = ""
    region: str = ""
    postal_code: str = ""
    country: str = ""


@dataclass(frozen=True, slots=True)
class StandardClaims:
    """Everything beyond username, name and e-mail address; "" for what was not said.

    `birthdate` is YYYY-MM-DD, YYYY, or 0000-MM-DD; `zoneinfo` a name such as Europe/Berlin;
    `locale` a language tag; `phone_number` in the form of E.164.
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
        """As it is stored."""
        return "{}" if self == StandardClaims.NOTHING else msgspec.json.encode(self).decode()

    @staticmethod
    def decode(text: str) -> "StandardClaims":
        """What `encode` wrote, or an older version of it."""
        if text == "{}":
            return StandardClaims.NOTHING
        return msgspec.json.decode(text, type=StandardClaims)


StandardClaims.NOTHING = StandardClaims()
