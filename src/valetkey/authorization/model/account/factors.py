"""Credentials other than the password."""

from enum import StrEnum

from msgspec import Struct

from valetkey.authorization.model.account.user import Uid
from valetkey.kernel.moment import Instant


class FactorKind(StrEnum):
    """The kinds of credentials, as stored."""

    PASSWORD = "password"
    PASSKEY = "passkey"
    AUTHENTICATOR = "totp"
    RECOVERY_CODE = "recovery_code"


class Passkey(Struct, frozen=True):
    """The public half of a passkey.

    `handle` is the credential id in base64url; `public` is what the WebAuthn library expects: that
    id and the key in COSE. `synced` passkeys may be copied to other devices of the user. `counter`
    is the last signature counter, 0 if the device has none.
    """

    id: str
    uid: Uid
    name: str
    handle: str
    public: bytes
    synced: bool
    counter: int
    created_at: Instant
    last_used_at: Instant | None = None


class Authenticator(Struct, frozen=True):
    """An authenticator app; its secret is `sealed` under the id."""

    id: str
    uid: Uid
    sealed: str
    created_at: Instant
    last_used_at: Instant | None = None


class RecoveryCodes(Struct, frozen=True):
    """The number of unused recovery codes, and when they were issued."""

    left: int
    made_at: Instant | None


class RememberedDevice(Struct, frozen=True):
    """A browser in which the second factor is skipped until `expires_at`.

    Its cookie changes with every use. `fingerprint` is that of the current one, `previous` that of
    the one replaced at `changed_at`.
    """

    id: str
    uid: Uid
    fingerprint: str
    previous: str
    changed_at: Instant
    user_agent: str
    created_at: Instant
    expires_at: Instant
