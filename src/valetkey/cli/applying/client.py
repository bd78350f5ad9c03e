"""Apply one client of the file."""

from msgspec import Struct

from valetkey.authorization.actions.clients import (
    Registrar,
    changed_fields,
    metadata_of,
    secret_faults,
)
from valetkey.authorization.applying import (
    Action,
    Declared,
    DeclaredEntry,
    InvalidEntry,
    Step,
    changed_or_kept,
    invalid_entry,
)
from valetkey.authorization.model.register.client import Client, is_by_secret
from valetkey.authorization.protocol.client_authentication.client_secret import secret_purpose
from valetkey.authorization.protocol.register.client_metadata import (
    FIELDS,
    ClientMetadata,
    with_values,
)
from valetkey.authorization.storage.register.applied import AppliedKind
from valetkey.authorization.storage.transaction import Transaction
from valetkey.cli.register.clients import COSTS
from valetkey.cli.register.services import every_client, fresh_client_secret
from valetkey.cli.register.store import OpenedStore
from valetkey.config.agreement import Problem
from valetkey.kernel.moment import Instant, days
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import Secret, fresh_id, same

_OTHERS_LIVE = days(1)
"""How long a secret that the file replaced remains valid."""


class WantedClient(Struct, frozen=True):
    """A client of the file, with a fresh id and secret to use if it needs them."""

    wanted: DeclaredEntry
    fresh_id: str
    fresh_secret: Secret


def prepared(opened: OpenedStore, wanted: DeclaredEntry) -> WantedClient:
    """Generate the random values for a client, outside any transaction."""
    fresh = fresh_id("client", opened.runtime.random)
    return WantedClient(wanted, fresh, fresh_client_secret(opened))


def apply_client(tx: Transaction, keeper: Registrar, client: WantedClient, now: Instant) -> Step:
    """Register or change the client. Raises InvalidEntry if the rules do not allow it."""
    there = find(tx, client.wanted)
    if there is None:
        return _register(tx, keeper, client, now)
    return _change(tx, keeper, client, there, now)


def find(tx: Transaction, wanted: DeclaredEntry) -> Client | None:
    """Return the client with the id that the file gives, else with its name, or None.

    Raises InvalidEntry if several clients have the name.
    """
    if client_id := wanted.text("client_id"):
        return tx.clients.find(client_id) if client_id.isprintable() else None
    same = [client for client in every_client(tx) if client.name == wanted.text("name")]
    if len(same) > 1:
        ids = ", ".join(client.id for client in same)
        problem = Problem(
            wanted.place, f"{len(same)} clients have this name", f"write one of {ids} as client_id"
        )
        raise InvalidEntry([problem])
    return same[0] if same else None


def _register(tx: Transaction, keeper: Registrar, client: WantedClient, now: Instant) -> Step:
    wanted = client.wanted
    metadata = client_metadata(ClientMetadata(name=""), wanted)
    needs = is_by_secret(metadata.proof)
    made_secret = client.fresh_secret if needs and wanted.secret is None else None
    made = keeper.register(
        tx,
        metadata,
        now,
        client_id=wanted.text("client_id") or client.fresh_id,
        secret=wanted.secret or made_secret,
    )
    if isinstance(made, tuple):
        raise invalid_entry(wanted, made)
    if wanted.given.get("disabled"):
        keeper.disable(tx, made, now)
    costs = _costs(made.grant_types)
    owned = Declared(AppliedKind.CLIENT, made.id, is_new=True)
    return Step(
        Action.CREATE, "client", made.id, secret=made_secret, costs=costs, declares=(owned,)
    )


def _change(
    tx: Transaction, keeper: Registrar, client: WantedClient, there: Client, now: Instant
) -> Step:
    wanted = client.wanted
    changed = keeper.change(tx, there, client_metadata(metadata_of(there), wanted), now)
    faults = secret_faults(wanted.secret)
    if isinstance(changed, tuple):
        raise invalid_entry(wanted, (*changed, *faults))
    if faults:
        raise invalid_entry(wanted, faults)
    names = list(changed_fields(there, changed))
    made_secret = None
    if (secret := wanted.secret) is None and _needs_secret(changed, now):
        secret = made_secret = client.fresh_secret
    if secret is not None and not _has(keeper, changed, secret, now):
        # The secret in the file must become valid, even if that replaces the oldest.
        if faults := keeper.issue_secret(
            tx, changed, secret, now, others_live=_OTHERS_LIVE, replaces_oldest=True
        ):
            raise invalid_entry(wanted, faults)
        names.append("client_secret (others end in a day)")
    if "disabled" in wanted.given:
        switch = keeper.disable if wanted.given["disabled"] else keeper.enable
        if switch(tx, changed, now):
            names.append("disabled")
    owned = Declared(AppliedKind.CLIENT, changed.id)
    step = changed_or_kept("client", changed.id, names, owned)
    costs = _costs(changed.grant_types - there.grant_types)
    return replace(step, secret=made_secret, costs=costs)


def _costs(grant_types: frozenset[str]) -> tuple[str, ...]:
    return tuple(cost for grant_type, cost in COSTS.items() if grant_type in grant_types)


def client_metadata(before: ClientMetadata, wanted: DeclaredEntry) -> ClientMetadata:
    """Return `before` with the changes of the file."""
    said = {name: value for name, value in wanted.given.items() if name in FIELDS}
    return with_values(before, said)


def _needs_secret(client: Client, now: Instant) -> bool:
    # A secret stored only as a fingerprint cannot sign.
    useful = (s for s in client.secrets if s.sealed or not client.signs_with_secret)
    return client.has_secret and not any(secret.is_live(now) for secret in useful)


def _has(keeper: Registrar, client: Client, secret: Secret, now: Instant) -> bool:
    print_ = keeper.fingerprints.of(secret_purpose(client.id), secret.reveal())
    # Fingerprints are not secret to a process that holds their key.
    return any(same(each.fingerprint, print_) for each in client.live_secrets(now))
