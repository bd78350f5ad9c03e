"""The interface of a client authentication method (RFC 6749 section 2.3)."""

from collections.abc import Callable
from dataclasses import dataclass, field

from msgspec import Struct

from valetkey.authorization.model.client import Client, ClientSecret
from valetkey.authorization.model.grant import Voucher
from valetkey.kernel.jose.key import KeySet
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refusal
from valetkey.kernel.secret import FingerprintKey, Secret
from valetkey.web.body import Form


@dataclass(frozen=True, slots=True)
class Basic:
    """The decoded content of an `Authorization: Basic` header, and the secret as it was sent."""

    client_id: str
    client_secret: str = field(repr=False)
    raw_client_secret: str = field(repr=False)


class Presented(Struct, frozen=True):
    """The parts of a request that can authenticate a client. Holds secrets; never printed."""

    parameters: Form
    basic: Basic | None
    audiences: tuple[str, ...]
    now: Instant


def claimed_id(presented: Presented) -> str:
    """Return the client id of the Authorization header, or of the form."""
    if presented.basic is not None:
        return presented.basic.client_id
    return presented.parameters.get("client_id") or ""


class ProofInputs(Struct, frozen=True):
    """The inputs of verification: the client's public keys, and the key of fingerprints.

    `shared` returns the secrets with which a client may sign, `note_use` records which of its
    secrets was used.
    """

    keys: KeySet
    fingerprints: FingerprintKey
    shared: Callable[[Client, Instant], tuple[Secret, ...]]
    note_use: Callable[[str, Instant], None]


class ClientProof(Struct, frozen=True):
    """What authenticated a client. `mark` can be used once: spend it in the transaction.

    `secrets` are those of the client's secrets that were sent.
    """

    mark: Voucher | None = None
    secrets: tuple[ClientSecret, ...] = ()


class Authenticated(Struct, frozen=True):
    """An authenticated client, with the method and its result."""

    client: Client
    method: str
    proof: ClientProof

    @property
    def mark(self) -> Voucher | None:
        """Return the mark to redeem, of an assertion."""
        return self.proof.mark


class Method(Struct, frozen=True):
    """One authentication method.

    `metadata_names` are its names in a registration (RFC 7591 section 2), `label` is its name on
    pages. `recognises` says whether a request uses this method, `claims` returns the client id that
    it names, and `proves` verifies it: the proof, or the refusal. If it
    `needs_keys`, the client's public keys are fetched before; `proves` never waits.
    `parameters` are the names of its body parameters, `signing_algorithms` those of which a client
    may register one. The method `none` recognises nothing: it is that of all other requests.
    """

    name: str
    metadata_names: tuple[str, ...]
    label: str
    recognises: Callable[[Presented], bool]
    claims: Callable[[Presented], str]
    proves: Callable[[Presented, Client, ProofInputs], ClientProof | Refusal]
    needs_keys: bool = False
    parameters: tuple[str, ...] = ()
    signing_algorithms: tuple[str, ...] = ()


def not_proven(check: str, expected: str = "", received: str = "") -> Refusal:
    """Return the refusal of every client that failed to authenticate; it reveals no reason."""
    return Refusal(
        ErrorCode.INVALID_CLIENT,
        "the client is unknown, or client authentication failed",
        f"client.{check}",
        expected,
        received,
    )
