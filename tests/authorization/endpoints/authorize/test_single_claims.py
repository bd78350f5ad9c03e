"""Claims asked for one by one (OpenID Connect Core section 5.5)."""

import json
from pathlib import Path

import pytest

from tests.authorization.endpoints.authorize.openid import (
    EVERYTHING,
    ask,
    asks_whether,
    asks_who,
    begin,
    consent,
    payload,
    said,
    wish,
)
from tests.support.harness import Harness
from tests.support.visitors import ALICE, BOB, run
from valetkey.authorization.protocol.claims import Acr
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace

ACR = Acr.PASSWORD.value


def test_requested_sub_claim_requires_that_user(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = await begin(it)
        mine, bobs = (wish({"sub": {"value": str(user.uid)}}) for user in (ALICE, BOB))
        response = said(await ask(alice, claims=mine, prompt="none", nonce="2"))
        assert "code" in response.names
        response = said(await ask(alice, claims=bobs, prompt="none", nonce="3"))
        assert response.fields["error"] == "login_required"
        assert asks_who(await ask(alice, claims=bobs, nonce="3"))

    run(tmp_path, story)


def test_single_claims_are_shown_can_be_unticked_and_are_remembered(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        alice = await begin(it)
        claims_request = wish({"email": {"essential": True}, "auth_time": None}, {"nickname": None})
        response = said(await ask(alice, claims=claims_request, prompt="none", nonce="2"))
        assert response.fields["error"] == "consent_required"
        page = await ask(alice, claims=claims_request, nonce="3")
        assert asks_whether(page)
        assert "know your email address" in page.body
        assert "know your nickname" in page.body
        assert "auth_time" not in page.body
        response = said(await alice.allow(page, claim=["email"]))
        code = await payload(it, response.fields["code"])
        assert json.loads(code.claims) == {
            "id_token": {"email": {"essential": True}, "auth_time": None}
        }
        assert (await consent(it)).claims == {"email"}
        # What was allowed is not asked for again, and what was not, is.
        only = wish({"email": None})
        assert "code" in said(await ask(alice, claims=only, prompt="none", nonce="4")).names
        page = await ask(alice, claims=claims_request, nonce="5")
        assert asks_whether(page)
        await alice.allow(page, claim=["email", "nickname", "phone_number"])
        assert (await consent(it)).claims == {"email", "nickname"}
        page_of_log = await it.store.read(lambda tx: tx.events.page(Instant(0), "", 100))
        noted = [json.loads(event.data) for event in page_of_log if event.name == "consent.given"]
        # Within a second they have no order.
        claims = sorted(data["claims"] for data in noted)
        assert claims == [[], ["email"], ["email", "nickname"]]
        response = said(await ask(alice, claims=claims_request, prompt="none", nonce="6"))
        assert json.loads((await payload(it, response.fields["code"])).claims).keys() == {
            "id_token",
            "userinfo",
        }

    run(tmp_path, story, database_url)


def test_claims_that_a_scope_brings_are_not_shown_twice(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = await begin(it)
        claims_request = wish({"email": None, "name": None})
        page = await ask(alice, scope="openid email", claims=claims_request, nonce="2")
        assert page.body.count('name="claim"') == 1
        response = said(await alice.allow(page, scope=["email"], claim=["name"]))
        code = await payload(it, response.fields["code"])
        assert json.loads(code.claims)["id_token"].keys() == {"email", "name"}
        # Allowed as a scope, it need not be allowed by itself.
        response = said(
            await ask(alice, scope="openid", claims=claims_request, prompt="none", nonce="3")
        )
        assert "code" in response.names

    run(tmp_path, story)


def test_claims_of_a_deselected_scope_are_not_granted(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = await begin(it)
        claims_request = wish({"email": None})
        page = await ask(alice, scope="openid email profile", claims=claims_request, nonce="2")
        response = said(await alice.allow(page, scope=["profile"]))
        code = await payload(it, response.fields["code"])
        assert (code.scope, code.claims) == ("openid profile", "")

    run(tmp_path, story)


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        ({"acr_values": "urn:example:gold"}, {"code"}),
        ({"acr_values": f"urn:example:gold {ACR}"}, {"code"}),
        ({"claims": wish({"acr": {"value": "urn:example:gold"}})}, {"code"}),
        ({"claims": wish({"acr": {"essential": True}})}, {"code"}),
        ({"claims": wish({"acr": {"essential": True, "values": ["x", ACR]}})}, {"code"}),
        ({"claims": wish({"acr": {"essential": True, "value": "urn:example:gold"}})}, {"error"}),
    ],
    ids=str,
)
def test_only_essential_acr_must_be_met(
    tmp_path: Path, asked: dict[str, str], names: set[str]
) -> None:
    async def story(it: Harness) -> None:
        alice = await begin(it)
        for prompt in ("none", "consent"):
            answer = await ask(alice, prompt=prompt, nonce=f"n-{prompt}", **asked)
            response = said(await alice.allow(answer) if asks_whether(answer) else answer)
            assert names <= response.names
            expected = "unmet_authentication_requirements"
            assert response.fields.get("error", expected) == expected

    run(tmp_path, story)


@pytest.mark.parametrize(
    "claims", ["x", "[]", '{"id_token": 1}', '{"userinfo": {"email": 1}}', '{"a":1,"a":2}']
)
def test_malformed_claims_are_refused_only_with_scope_openid(tmp_path: Path, claims: str) -> None:
    async def story(it: Harness) -> None:
        alice = await begin(it)
        response = said(await ask(alice, claims=claims, nonce="2"))
        assert response.fields["error"] == "invalid_request"
        # Without the scope openid it is a parameter that nobody knows.
        page = await ask(alice, claims=claims, nonce="3", scope="notes:read")
        assert asks_whether(page)

    run(tmp_path, story)


def test_changed_terms_of_the_client_require_consent_to_claims_again(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = await begin(it)
        claims_request = wish({"email": None})
        await alice.allow(await ask(alice, claims=claims_request, nonce="2"))
        await it.change(replace(EVERYTHING, tos_uri="https://app.example/new"))
        page = await ask(alice, claims=claims_request, nonce="3")
        assert "its terms or privacy policy" in page.body
        await alice.allow(page, claim=[])
        assert (await consent(it)).claims == frozenset()

    run(tmp_path, story)
