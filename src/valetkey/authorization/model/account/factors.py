"""What people prove with who they are, beside a password."""

from dataclasses import dataclass
from enum import StrEnum

from valetkey.authorization.model.account.user import Uid
from valetkey.kernel.moment import Instant


class FactorKind(StrEnum):
    """The kinds of credentials, as they are stored."""

    PASSWORD = "password"
    PASSKEY = "passkey"
    AUTHENTICATOR = "totp"
    RECOVERY_CODE = "recovery_code"


@dataclass(frozen=True, slots=True)
class Passkey:
    """A key pair in a person's device, of which the public half is kept.

    `handle` is the credential id that the device chose, in base64url; `public` is what the
    WebAuthn library wants back: that id and the key, in COSE. `synced` ones may be copied to other
    devices of the same person. `counter` is the last that the device told, 0 where it has none.
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


@dataclass(frozen=True, slots=True)
class Authenticator:
    """An authenticator app; its secret is `sealed` under the id."""

    id: str
    uid: Uid
    sealed: str
    created_at: Instant
    last_used_at: Instant | None = None


@dataclass(frozen=True, slots=True)
class RecoveryCodes:
    """How many codes are left, and since when there are any."""

    left: int
    made_at: Instant | None


@dataclass(frozen=True, slots=True)
class RememberedDevice:
    """A browser in which the second factor is not asked for until `expires_at`.

    Its cookie changes with every use. `fingerprint` is of the present one, `previous` of the one
    before it, which was exchanged at `changed_at`.
    """

    id: str
    uid: Uid
    fingerprint: str
    previous: str
    changed_at: Instant
    user_agent: str
    created_at: Instant
    expires_at: Instant
