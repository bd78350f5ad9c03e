"""What a client registered for OpenID Connect (OpenID Connect Registration section 2)."""

from dataclasses import dataclass
from typing import ClassVar

import msgspec


@dataclass(frozen=True, slots=True)
class OpenIdRegistration:
    """One client's choices; every default is what a client has that said nothing.

    No `response_types` means every one that its grant types allow. `sector` is the host under which
    pairwise subjects are made, `encryption_keys` the JWKS document of its encryption keys by value.
    Encryption algorithms are "" where nothing is encrypted, `userinfo_signed_response_alg` and
    `introspection_signed_response_alg` where the answer is plain JSON. Lifetimes are in seconds.
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
        """Whether it knows people by names that no other sector knows (Core section 8.1)."""
        return self.subject_type == "pairwise"

    @property
    def is_encrypting(self) -> bool:
        """Whether it wants any answer encrypted."""
        return bool(self.id_token_encrypted_response_alg or self.userinfo_encrypted_response_alg)

    def encode(self) -> str:
        """As it is stored."""
        return "{}" if self == OpenIdRegistration.NOTHING else msgspec.json.encode(self).decode()

    @staticmethod
    def decode(text: str) -> "OpenIdRegistration":
        """What `encode` wrote, or an older version of it."""
        if text == "{}":
            return OpenIdRegistration.NOTHING
        return msgspec.json.decode(text, type=OpenIdRegistration)


OpenIdRegistration.NOTHING = OpenIdRegistration()
