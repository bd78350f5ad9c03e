"""Codes: look, bind, redeem, judge; and what a shrunken registration leaves of them."""

from pathlib import Path

import pytest

from tests.support.harness import CALLBACK, Harness, run
from valetkey.authorization.actions.clients import metadata_of
from valetkey.kernel.replace import replace

# RFC 7636 appendix B.
VERIFIER = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
CHALLENGE = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"


async def _shrink(it: Harness, client_id: str, *scopes: str) -> None:
    registrar = it.foundation.registrar("test")
    client = await it.read(lambda tx: tx.clients.find(client_id))
    assert client is not None
    metadata = replace(metadata_of(client), scopes=scopes)
    result = await it.write(lambda tx: registrar.change(tx, client, metadata, it.clock.now))
    assert not isinstance(result, tuple), result


def test_replayed_code_is_refused_and_revokes_its_grant(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        code = await it.code("web")
        first = await it.exchange("web", code)
        assert await it.events() == ["code.redeemed"]
        for _ in range(2):
            (await it.exchange("web", code)).refused(400, "invalid_grant")
        assert (await it.introspect(first.text("access_token")))["active"] is False
        expected = ["code.redeemed", "code.replayed", "grant.revoked"]
        assert sorted(await it.events()) == expected

    run(tmp_path, story)


@pytest.mark.parametrize(
    ("challenge", "said"),
    [
        (CHALLENGE, {"code_verifier": VERIFIER[:-1] + "A"}),
        (CHALLENGE, {"code_verifier": "short"}),
        (CHALLENGE, {"code_verifier": "é" * 43}),
        (CHALLENGE, {"code_verifier": ""}),
        (CHALLENGE, {}),
        ("", {"code_verifier": VERIFIER}),
        ("", {"redirect_uri": CALLBACK + "/"}),
        ("", {"redirect_uri": ""}),
        ("", {"resource": "https://other.example"}),
    ],
)
def test_wrong_verifier_redirect_uri_or_resource_invalidates_the_code(
    tmp_path: Path, challenge: str, said: dict[str, str]
) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        code = await it.code("web", code_challenge=challenge)
        answer = await it.exchange("web", code, **said)
        assert answer.json["error"] in {"invalid_grant", "invalid_target"}
        right = {"code_verifier": VERIFIER} if challenge else {}
        (await it.exchange("web", code, **right)).refused(400, "invalid_grant")
        assert await it.events() == ["code.spoiled"]

    run(tmp_path, story)


@pytest.mark.parametrize(
    ("challenge", "said"),
    [
        (CHALLENGE, {"code_verifier": VERIFIER}),
        ("", {"code_verifier": ""}),
        ("", {"resource": "", "scope": "write"}),
    ],
)
def test_valid_proof_redeems_the_code(tmp_path: Path, challenge: str, said: dict[str, str]) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        answer = await it.exchange("web", await it.code("web", code_challenge=challenge), **said)
        assert answer.json["scope"] == "notes:read"

    run(tmp_path, story)


@pytest.mark.parametrize("code", ["", "x", "vk_ac_" + "a" * 49, "é"])
def test_invalid_code_is_refused_without_an_event(tmp_path: Path, code: str) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        answer = await it.exchange("web", code)
        assert answer.json["error"] in {"invalid_request", "invalid_grant"}
        assert await it.events() == []

    run(tmp_path, story)


def test_failed_use_by_another_client_does_not_consume_the_code(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        await it.client("thief")
        code = await it.code("web")
        (await it.exchange("thief", code)).refused(400, "invalid_grant")
        assert (await it.exchange("web", code)).status == 200

    run(tmp_path, story)


def test_expired_code_is_refused_and_not_recorded_as_a_replay(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        code = await it.code("web")
        it.clock.forward(60)
        answer = await it.exchange("web", code)
        answer.refused(400, "invalid_grant")
        assert "expired" in answer.text("error_description")
        assert await it.events() == []

    run(tmp_path, story)


def test_code_is_refused_after_its_consent_was_reduced_or_deleted(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        code = await it.code("web", "notes:read account:read")
        await it.write(lambda tx: tx.db.run("UPDATE consents SET scope = 'notes:read'"))
        (await it.exchange("web", code)).refused(400, "invalid_grant")
        code = await it.code("web")
        await it.write(lambda tx: tx.db.run("DELETE FROM consents"))
        (await it.exchange("web", code)).refused(400, "invalid_grant")

    run(tmp_path, story)


def test_scope_is_never_wider_than_what_the_client_is_registered_for(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        codes = [await it.code("web", "notes:read account:read") for _ in range(2)]
        wide = await it.exchange("web", codes[0])
        assert wide.json["scope"] == "notes:read account:read"
        await _shrink(it, "web", "notes:read", "write")
        assert (await it.exchange("web", codes[1])).json["scope"] == "notes:read"
        token = wide.text("refresh_token")
        assert (await it.refresh("web", token)).json["scope"] == "notes:read"
        (await it.refresh("web", token, scope="account:read")).refused(400, "invalid_scope")
        code = await it.code("web")
        await _shrink(it, "web", "write")
        (await it.refresh("web", token)).refused(400, "invalid_scope")
        (await it.exchange("web", code)).refused(400, "invalid_scope")

    run(tmp_path, story)


def test_grant_ends_with_its_session_only_if_the_client_requires_it(
    tmp_path: Path,
) -> None:
    async def story(it: Harness) -> None:
        await it.client("bound", ends_with_session=True)
        await it.client("free")
        tokens = [(await it.tokens(name)).text("refresh_token") for name in ("bound", "free")]
        await it.write(lambda tx: tx.db.run("DELETE FROM sessions"))
        (await it.refresh("bound", tokens[0])).refused(400, "invalid_grant")
        assert (await it.refresh("free", tokens[1])).status == 200

    run(tmp_path, story)
