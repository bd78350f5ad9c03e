"""Public keys registered by value: for verifying the client and for encrypting to it."""

from dataclasses import dataclass

import msgspec

from valetkey.kernel.jose.jwe import EncryptionKeys
from valetkey.kernel.jose.jwk import refused, thumbprint
from valetkey.kernel.jose.key import KeySet


@dataclass(frozen=True, slots=True)
class RegisteredKeys:
    """One key set, split by the use of its keys."""

    signing: KeySet
    encryption: EncryptionKeys

    @property
    def encryption_document(self) -> str:
        """The encryption keys as a JWKS document, "" if there are none."""
        return self.encryption.document().decode() if len(self.encryption) else ""


NO_KEYS = RegisteredKeys(KeySet(), EncryptionKeys())


def read_keys(document: str, *, encrypts: bool) -> RegisteredKeys:
    """Read a JWKS document; "" is an empty one.

    A key without `use` is also an encryption key if the client `encrypts`. Refused with
    `invalid_client_metadata` for a malformed document, for an unusable signing key, and if no key
    is usable.
    """
    if not document:
        return NO_KEYS
    # surrogatepass: an unpaired surrogate must become a refusal by the reader, not an exception.
    data = document.encode("utf-8", "surrogatepass")
    signing, encryption = KeySet.parse(data), EncryptionKeys.parse(data)
    if not encrypts:
        known = {thumbprint(key.jwk) for key in signing}
        only = tuple(key for key in encryption if thumbprint(key.jwk) not in known)
        encryption = EncryptionKeys(only)
    if not len(signing) and not len(encryption):
        raise refused("none", "there is no key in it that can be used")
    return RegisteredKeys(signing, encryption)


def as_document(signing: KeySet, encryption_document: str) -> str:
    """Return both kinds as one document that `read_keys` accepts, "" if there are none."""
    keys = [dict(key.jwk) for key in signing]
    if encryption_document:
        keys += [dict(key.jwk) for key in EncryptionKeys.parse(encryption_document.encode())]
    return msgspec.json.encode({"keys": keys}).decode() if keys else ""
