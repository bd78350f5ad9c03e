"""A user of many groups signs in everywhere; userinfo has the whole list."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.authorization.endpoints.admin_api.programs import caller
from tests.support.harness import ADA, Harness, run
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.jose.jwt import parse

_SCOPES = ("openid", "groups", "notes:read")
_LARGEST = 8_192


def _join(count: int, tx: Transaction) -> None:
    for number in range(count):
        name = f"{'g' * 60}{number:05}"
        tx.db.run(
            "INSERT INTO user_groups (id, name, description, parent_id, created_at)"
            " VALUES (:id, :id, '', '', 0)",
            id=name,
        )
        tx.db.run(
            "INSERT INTO group_members (uid, group_id, since) VALUES (:uid, :id, 0)",
            uid=ADA,
            id=name,
        )


def _claims(token: str, kind: str) -> Mapping[str, object]:
    assert len(token) < 2 * _LARGEST
    claims: Mapping[str, object] = json.loads(parse(token, (kind,)).payload)
    return claims


@pytest.mark.parametrize("count", [3, 200, 5_000])
def test_member_of_many_groups_signs_in(tmp_path: Path, database_url: str, count: int) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        await it.write(lambda tx: _join(count, tx))
        places = ["access_token", "id_token", "userinfo"]
        body = {"from": "groups:g", "in": places}
        made = await owner.call("PUT", "/claims/teams", body)
        assert made.status in {200, 201}, made.body
        for kind in ("jwt", "reference"):
            await it.client(kind, scopes=_SCOPES, access_token_format=kind)
            scope = "openid groups"
            tokens = await it.exchange(kind, await it.code(kind, scope, methods=("pwd",)))
            assert tokens.status == 200, tokens.body
            tokens = await it.refresh(kind, tokens.text("refresh_token"))
            access_token = tokens.text("access_token")
            claim_sets = [
                await it.introspect(access_token),
                _claims(tokens.text("id_token"), "jwt"),
            ]
            if kind == "jwt":
                claim_sets.append(_claims(access_token, "at+jwt"))
            for claims in claim_sets:
                fits = count < 100
                assert ("_claim_names" in claims) is not fits, claims
                assert ("teams" in claims) is fits
                if not fits:
                    assert claims["_claim_sources"] == {
                        "userinfo": {"endpoint": f"{it.settings.authorization.url}/oauth/userinfo"}
                    }
            bearer = f"Bearer {access_token}"
            for _ in range(2):
                userinfo = await it.call("GET", "/oauth/userinfo", authorization=bearer)
                for name in ("groups", "teams"):
                    groups = userinfo.json[name]
                    assert isinstance(groups, list)
                    assert len(groups) == count

    run(tmp_path, story, database_url)
