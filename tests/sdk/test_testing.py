"""Tokens for tests are real tokens."""

import asyncio

import pytest

from valetkey.kernel.jose.access_token import DPOP, Binding
from valetkey.kernel.moment import seconds
from valetkey.kernel.refusal import Refused
from valetkey.kernel.runtime import SYSTEM
from valetkey.sdk import Caller, Gate
from valetkey.sdk.testing import Mint, trusted

API = "https://api.example"


def _admit(mint: Mint, token: str, *needs: str) -> Caller:
    async def story() -> Caller:
        async with mint.protection() as protection:
            return await protection.admit([f"Bearer {token}"], SYSTEM.now(), *needs)

    return asyncio.run(story())


def test_minted_token_has_the_requested_user_client_and_scope() -> None:
    mint = Mint(API)
    caller = _admit(mint, mint.token("notes:read", user="7", client="printer"), "notes:read")
    assert (caller.user, caller.client_id) == ("7", "printer")
    assert _admit(mint, mint.token(user=None)).user is None
    assert _admit(mint, mint.reference("read", user="7"), "read").user == "7"


def test_token_is_refused_for_each_possible_reason() -> None:
    mint = Mint(API)
    ended = mint.reference()
    mint.end(ended)
    for token in (
        ended,
        mint.token(lifetime=seconds(0)),
        mint.token(lifetime=seconds(-60)),
        mint.token(audience="https://other.example"),
        mint.token(bindings=(Binding(DPOP, "x"),)),
        Mint(API).token(),
        Mint(API, "https://other.example").token(),
    ):
        with pytest.raises(Refused):
            _admit(mint, token)
    with pytest.raises(Refused):
        _admit(mint, mint.token("notes:write"), "notes:read")


def test_gate_trusts_a_mint_only_inside_the_with_block() -> None:
    gate = Gate("https://as.example", audience=API)
    real = gate.changes
    with trusted(gate) as mint:
        assert (mint.issuer, mint.audience) == ("https://as.example", API)
        assert gate.changes == real + 1
    assert gate.changes == real + 2
