"""The cached claims of tokens are those of the revision under which they are kept."""

from collections.abc import Sequence
from pathlib import Path
from threading import Thread

import pytest

from valetkey.authorization.claims.model import Declarations, DeclaredClaim
from valetkey.authorization.model.api import ClaimLocation
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.tokens.apis import default_api
from valetkey.authorization.tokens.claims import TokenClaims
from valetkey.kernel.scope import Scope
from valetkey.testing.storage_conformance import NOW, Memory

CLAIM = DeclaredClaim("team", "constant:red", (ClaimLocation.ACCESS_TOKEN,))


def _declare(tx: Transaction) -> None:
    Declarations.of(tx).hold_all()
    Declarations.of(tx).save_claim(CLAIM, NOW)


def test_claims_are_not_cached_under_a_later_revision(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = Memory(database_url, tmp_path)
    claims = TokenClaims(memory.store, default_api("https://api.example", "API", {}, Scope()))
    change = Thread(target=lambda: memory.write(_declare))
    read = Declarations.claims

    def read_before_the_change(declarations: Declarations) -> Sequence[DeclaredClaim]:
        declared_claims = read(declarations)
        if change.ident is None:
            change.start()
            # It waits for this transaction, or could commit before the revision is read.
            change.join(0.5)
        return declared_claims

    monkeypatch.setattr(Declarations, "claims", read_before_the_change)
    assert memory.write(claims.declared) == ()
    change.join()
    assert memory.read(claims.declared) == (CLAIM,)
    memory.close()
