"""What a client authentication method is (RFC 6749 section 2.3)."""

from collections.abc import Callable
from dataclasses import dataclass, field

from msgspec import Struct

from valetkey.authorization.client_authentication.secret_uses import SecretUses
from valetkey.authorization.model.register.client import Client
from valetkey.authorization.model.voucher import Voucher
from valetkey.authorization.tokens.shared_secrets import SharedSecrets
from valetkey.kernel.jose.key import KeySet
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refusal
from valetkey.kernel.secret import FingerprintKey
from valetkey.web.form import Form


@dataclass(frozen=True, slots=True)
class Basic:
    """What an `Authorization: Basic` header carried: decoded, and the secret as it was sent."""

    client_id: str
    client_secret: str = field(repr=False)
    raw_client_secret: str = field(repr=False)


class Presented(Struct, frozen=True):
    """What a request shows to prove which client sent it. Holds secrets; never printed."""

    parameters: Form
    basic: Basic | None
    audiences: tuple[str, ...]
    now: Instant


class ProofInputs(Struct, frozen=True):
    """With what a proof is judged: the client's public keys, and how its secrets are compared.

    `uses` hears which of them was good for it.
    """

    keys: KeySet
    fingerprints: FingerprintKey
    shared: SharedSecrets
    uses: SecretUses


class Authenticated(Struct, frozen=True):
    """A client that has proven who it is. `mark` counts once: spend it in the transaction."""

    client: Client
    method: str
    mark: Voucher | None = None


@dataclass(frozen=True, slots=True)
class Method:
    """One way to prove it.

    `recognises` says whether a request uses this method, `claims` which client it names, and
    `proves` judges the proof: the mark to spend (or None), or why not. Where it `needs_keys`, the
    client's public keys are found before; no judge waits for anybody.
    """

    name: str
    metadata_names: tuple[str, ...]
    recognises: Callable[[Presented], bool]
    claims: Callable[[Presented], str]
    proves: Callable[[Presented, Client, ProofInputs], Voucher | Refusal | None]
    needs_keys: bool = False


def not_proven(check: str, expected: str = "", received: str = "") -> Refusal:
    """The one answer to every client that did not prove who it is: it tells nothing else."""
    return Refusal(
        ErrorCode.INVALID_CLIENT,
        "the client is unknown, or did not prove that it is this client",
        f"client.{check}",
        expected,
        received,
    )
