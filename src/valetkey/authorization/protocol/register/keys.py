"""The public keys that a client registers by value: to verify it by, and to encrypt to."""

from dataclasses import dataclass

import msgspec

from valetkey.kernel.jose.jwe import EncryptionKeys
from valetkey.kernel.jose.jwk import refused, thumbprint
from valetkey.kernel.jose.key import KeySet


@dataclass(frozen=True, slots=True)
class RegisteredKeys:
    """One key set, taken apart by what its keys are for."""

    signing: KeySet
    encryption: EncryptionKeys

    @property
    def encryption_document(self) -> str:
        """The keys to encrypt to as a JWKS document, "" for none."""
        return self.encryption.document().decode() if len(self.encryption) else ""


NO_KEYS = RegisteredKeys(KeySet(), EncryptionKeys())


def read_keys(document: str, *, encrypts: bool) -> RegisteredKeys:
    """The keys of a JWKS document, "" for none.

    A key that does not say what it is for is also one to encrypt to where the client `encrypts`.
    Refused with `invalid_client_metadata` for a document, or a key for signatures, that cannot be
    used, and where no key can.
    """
    if not document:
        return NO_KEYS
    # surrogatepass: half a character must end as a refusal of the reader, not as a fault.
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
    """Both kinds as the one document that `read_keys` reads again, "" for no key at all."""
    keys = [dict(key.jwk) for key in signing]
    if encryption_document:
        keys += [dict(key.jwk) for key in EncryptionKeys.parse(encryption_document.encode())]
    return msgspec.json.encode({"keys": keys}).decode() if keys else ""
