"""Single claims in plain words, for the consent page (OpenID Connect Core section 5.1)."""

from collections.abc import Mapping
from types import MappingProxyType

CLAIM_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "name": "know your full name",
        "family_name": "know your family name",
        "given_name": "know your given name",
        "middle_name": "know your middle name",
        "nickname": "know your nickname",
        "preferred_username": "know your username",
        "profile": "know the address of your profile page",
        "picture": "know your picture",
        "website": "know your website",
        "gender": "know your gender",
        "birthdate": "know your date of birth",
        "zoneinfo": "know your time zone",
        "locale": "know your language",
        "updated_at": "know when your profile was last changed",
        "email": "know your email address",
        "email_verified": "know whether your email address is verified",
        "address": "know your postal address",
        "phone_number": "know your phone number",
        "phone_number_verified": "know whether your phone number is verified",
        "groups": "know which groups you are in",
    }
)
"""What an app wants that asks for one of them: each continues "It wants to …"."""
