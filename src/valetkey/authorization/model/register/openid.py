"""The OpenID Connect part of a client (OpenID Connect Registration section 2)."""

from dataclasses import dataclass
from typing import ClassVar

import msgspec


@dataclass(frozen=True, slots=True)
class OpenIdRegistration:
    """A client's choices; the defaults apply to a client that made none.

    Empty `response_types` means all that its grant types allow. `sector` is the host under which
    pairwise subjects are made, `encryption_keys` the JWKS document of its encryption keys by value.
    Encryption algorithms are "" if nothing is encrypted, `userinfo_signed_response_alg` and
    `introspection_signed_response_alg` if the response is plain JSON. Lifetimes are in seconds.
    """

    NOTHING: ClassVar["OpenIdRegistration"]

    response_types: tuple[str, ...] = ()
    subject_type: str = "public"
    sector_identifier_uri: str = ""
    sector: str = ""
    jwks_uri: str = ""
    encryption_keys: str = ""
    token_endpoint_auth_method: str = ""
    token_endpoint_auth_signing_alg: str = ""
    id_token_signed_response_alg: str = "ES256"
    id_token_encrypted_response_alg: str = ""
    id_token_encrypted_response_enc: str = ""
    userinfo_signed_response_alg: str = ""
    userinfo_encrypted_response_alg: str = ""
    userinfo_encrypted_response_enc: str = ""
    introspection_signed_response_alg: str = ""
    request_object_signing_alg: str = ""
    request_uris: tuple[str, ...] = ()
    default_max_age: int | None = None
    require_auth_time: bool = False
    default_acr_values: tuple[str, ...] = ()
    initiate_login_uri: str = ""
    post_logout_redirect_uris: tuple[str, ...] = ()
    frontchannel_logout_uri: str = ""
    frontchannel_logout_session_required: bool = False
    backchannel_logout_uri: str = ""
    backchannel_logout_session_required: bool = False
    client_uri: str = ""
    contacts: tuple[str, ...] = ()

    @property
    def is_pairwise(self) -> bool:
        """Whether it gets pairwise subjects (Core section 8.1)."""
        return self.subject_type == "pairwise"

    @property
    def is_encrypting(self) -> bool:
        """Whether it registered any encryption."""
        return bool(self.id_token_encrypted_response_alg or self.userinfo_encrypted_response_alg)

    def encode(self) -> str:
        """Encode for storage."""
        return "{}" if self == OpenIdRegistration.NOTHING else msgspec.json.encode(self).decode()

    @staticmethod
    def decode(text: str) -> "OpenIdRegistration":
        """Decode what `encode` returned, in this or an older version."""
        if text == "{}":
            return OpenIdRegistration.NOTHING
        return msgspec.json.decode(text, type=OpenIdRegistration)


OpenIdRegistration.NOTHING = OpenIdRegistration()
