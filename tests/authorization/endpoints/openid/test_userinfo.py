"""Userinfo: what it says, to whom, and everything that it refuses (Core section 5.3)."""

from pathlib import Path

import pytest

from tests.support.asgi import FORM, Answer
from tests.support.cases import case
from tests.support.harness import ADA, Harness, run
from valetkey.authorization.model.client import OpenIdRegistration
from valetkey.authorization.model.user import Address, StandardClaims
from valetkey.authorization.operations.groups import ADD_GROUP_MEMBER, CREATE_GROUP
from valetkey.authorization.operations.user_records import GroupWanted
from valetkey.authorization.protocol.claims import CLAIMS_OF
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.replace import replace

IDENTITY = ("openid", "profile", "email", "address", "phone")
WHOLE = StandardClaims(
    given_name="Ada",
    family_name="Lovelace",
    middle_name="King",
    nickname="Countess",
    profile="https://ada.example/",
    picture="https://ada.example/face.png",
    website="https://ada.example/blog",
    gender="female",
    birthdate="1815-12-10",
    zoneinfo="Europe/London",
    locale="en-GB",
    phone_number="+442079460000",
    phone_number_verified=True,
    address=Address(formatted="12 St James's Square\nLondon", country="UK"),
)


async def _token(it: Harness, scope: str = "openid", client_id: str = "app") -> str:
    if client_id not in it.clients:
        await it.client(client_id, scopes=(*IDENTITY, "groups", "notes:read"))
    return (await it.tokens(client_id, scope)).text("access_token")


async def _ask(it: Harness, token: str) -> Answer:
    return await it.call("GET", "/oauth/userinfo", authorization=f"Bearer {token}")


async def _record(it: Harness, claims: StandardClaims) -> None:
    def work(tx: Transaction) -> None:
        user = tx.users.find(ADA)
        assert user is not None
        assert tx.users.change(replace(user, claims=claims))

    await it.write(work)


async def _open_id(it: Harness, client_id: str, registration: OpenIdRegistration) -> None:
    def work(tx: Transaction) -> None:
        client = tx.clients.find(client_id)
        assert client is not None
        assert tx.clients.change(replace(client, openid=registration))

    await it.write(work)


def _refused(answer: Answer, status: int, error: str) -> None:
    assert answer.status == status, answer.body
    challenge = answer.headers["www-authenticate"]
    assert challenge.startswith('Bearer realm="http://localhost:8400"')
    assert (f'error="{error}"' in challenge) == bool(error)
    assert answer.headers["access-control-allow-origin"] == "*"
    assert answer.headers["cache-control"] == "no-store"


def test_userinfo_with_openid_alone_has_only_the_subject(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        await _record(it, WHOLE)
        answer = await _ask(it, await _token(it))
        assert (answer.status, answer.json) == (200, {"sub": "1001"})
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["cache-control"] == "no-store"

    run(tmp_path, story, database_url)


@pytest.mark.parametrize("scope", CLAIMS_OF)
def test_each_scope_adds_its_claims(tmp_path: Path, scope: str) -> None:
    async def story(it: Harness) -> None:
        await _record(it, WHOLE)
        await it.perform(CREATE_GROUP, {}, GroupWanted("staff"))
        await it.perform(ADD_GROUP_MEMBER, {"group": "staff", "uid": "1001"})
        claims = (await _ask(it, await _token(it, f"openid {scope}"))).json
        assert set(claims) == {"sub", *CLAIMS_OF[scope]}

    run(tmp_path, story)


def test_claims_have_the_types_of_the_specification(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        await _record(it, WHOLE)
        claims = (await _ask(it, await _token(it, " ".join(IDENTITY)))).json
        assert claims["updated_at"] == it.clock.now
        assert claims["email_verified"] is False
        assert claims["phone_number_verified"] is True
        assert claims["address"] == {"formatted": "12 St James's Square\nLondon", "country": "UK"}
        assert (claims["name"], claims["preferred_username"]) == ("Ada", "ada")

    run(tmp_path, story, database_url)


def test_missing_claims_are_omitted(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        claims = (await _ask(it, await _token(it, " ".join(IDENTITY)))).json
        assert set(claims) == {
            *("sub", "name", "preferred_username", "updated_at", "email", "email_verified")
        }

    run(tmp_path, story)


def test_a_post_may_carry_the_token_in_the_header_or_in_the_form(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        token = await _token(it)
        bearer = f"bearer {token}"
        in_header = await it.call("POST", "/oauth/userinfo", authorization=bearer)
        in_body = await it.post("/oauth/userinfo", {"access_token": token})
        assert in_header.json == in_body.json == {"sub": "1001"}

    run(tmp_path, story)


def test_reference_token_is_accepted(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        await it.client("app", scopes=IDENTITY, access_token_format="reference")
        answer = await _ask(it, await _token(it, "openid email"))
        assert answer.json["email"] == "ada@example.com"

    run(tmp_path, story, database_url)


def test_in_09_a_token_in_the_query_is_refused(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        token = await _token(it)
        target = f"/oauth/userinfo?access_token={token}"
        _refused(await it.call("GET", target), 400, "invalid_request")
        both = await it.call("GET", target, authorization=f"Bearer {token}")
        _refused(both, 400, "invalid_request")

    run(tmp_path, story)


def test_in_09_token_sent_twice_is_refused(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        token = await _token(it)
        body = f"access_token={token}".encode()
        answer = await it.call("POST", "/oauth/userinfo", body, FORM, f"Bearer {token}")
        _refused(answer, 400, "invalid_request")
        twice = await it.post("/oauth/userinfo", body + b"&" + body)
        _refused(twice, 400, "invalid_request")

    run(tmp_path, story)


def test_in_09_token_without_openid_gets_403_with_the_missing_scope(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        answer = await _ask(it, await _token(it, "notes:read"))
        _refused(answer, 403, "insufficient_scope")
        assert answer.headers["www-authenticate"].endswith('scope="openid"')

    run(tmp_path, story)


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH"])
def test_in_09_other_methods_are_405(tmp_path: Path, method: str) -> None:
    async def story(it: Harness) -> None:
        answer = await it.call(
            method, "/oauth/userinfo", authorization=f"Bearer {await _token(it)}"
        )
        assert answer.status == 405
        assert answer.headers["allow"] == "GET, HEAD, POST"

    run(tmp_path, story)


def test_without_a_token_the_challenge_names_no_error(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        _refused(await it.call("GET", "/oauth/userinfo"), 401, "")
        _refused(await it.call("GET", "/oauth/userinfo", authorization="Basic YTpi"), 401, "")

    run(tmp_path, story)


_MALFORMED_TOKENS: tuple[str, ...] = (
    "",
    "x",
    "a.b.c",
    "vk_at_" + "0" * 49,
    "x" * 20_000,
    "a b",
    "é",
    "a,b",
)


def test_malformed_token_is_401(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        for token in _MALFORMED_TOKENS:
            with case(token):
                _refused(await _ask(it, token), 401, "invalid_token")

    run(tmp_path, story)


def test_client_credentials_token_is_refused_at_userinfo(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("robot", grant_types=("client_credentials",))
        answer = await _ask(it, await it.own_token("robot"))
        _refused(answer, 403, "insufficient_scope")

    run(tmp_path, story)


def test_refresh_token_id_token_and_code_are_refused(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("app", scopes=IDENTITY)
        tokens = await it.tokens("app", "openid")
        code = await it.code("app", "openid")
        for wrong in (tokens.text("refresh_token"), tokens.text("id_token"), code):
            _refused(await _ask(it, wrong), 401, "invalid_token")

    run(tmp_path, story)


@pytest.mark.parametrize("form", ["jwt", "reference"])
@pytest.mark.parametrize("end", ["expiry", "grant", "client", "user", "token", "session"])
def test_userinfo_refuses_a_token_once_anything_it_depends_on_has_ended(
    tmp_path: Path, end: str, form: str
) -> None:
    async def story(it: Harness) -> None:
        client = await it.client(
            "app", scopes=IDENTITY, access_token_format=form, ends_with_session=True
        )
        token = await _token(it)
        assert (await _ask(it, token)).status == 200
        now, accounts = it.clock.now, it.foundation.accounts()
        if end == "expiry":
            it.clock.forward(3_600)
        elif end == "token":
            assert (await it.token("app", "/oauth/revoke", token=token)).status == 200
        elif end == "client":
            registrar = it.foundation.registrar("test")
            assert await it.write(lambda tx: registrar.disable(tx, client, now))
        else:

            def work(tx: Transaction) -> None:
                user = tx.users.find(ADA)
                assert user is not None
                if end == "user":
                    assert accounts.disable(tx, user, now)
                for grant in tx.grants.live_of_user(ADA, now, 9):
                    if end == "session":
                        assert tx.sessions.end(grant.sid, now)
                    else:
                        assert tx.grants.revoke(grant.id, now, "user_withdrew")

            await it.write(work)
        _refused(await _ask(it, token), 401, "invalid_token")

    run(tmp_path, story)


def test_cors_allows_every_origin_without_credentials(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        answer = await it.call("OPTIONS", "/oauth/userinfo")
        assert answer.status == 204
        assert answer.headers["access-control-allow-origin"] == "*"
        assert "authorization" in answer.headers["access-control-allow-headers"]
        assert "POST" in answer.headers["access-control-allow-methods"]
        assert "access-control-allow-credentials" not in answer.headers
        userinfo = await _ask(it, await _token(it))
        assert userinfo.headers["access-control-allow-origin"] == "*"

    run(tmp_path, story)


def test_pairwise_clients_get_one_subject_per_sector_and_no_uid(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        names: dict[str, str] = {}
        for client_id, sector in (("one", "a.example"), ("two", "a.example"), ("three", "")):
            await it.client(client_id, scopes=(*IDENTITY, "read"))
            registration = OpenIdRegistration(subject_type="pairwise", sector=sector)
            await _open_id(it, client_id, registration)
            tokens = await it.tokens(client_id, "openid read")
            assert not {"uid", "info"} & set(tokens.json)
            token = tokens.text("access_token")
            assert token.startswith("vk_at_")
            names[client_id] = (await _ask(it, token)).text("sub")
            own = await it.token(client_id, "/oauth/introspect", token=token)
            assert own.json["sub"] == names[client_id]
            assert (await it.introspect(token))["sub"] == "1001"
        assert names["one"] == names["two"] != names["three"]
        assert "1001" not in names.values()

    run(tmp_path, story, database_url)


def test_userinfo_reflects_changes_and_revocation(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        token = await _token(it, "openid profile")
        first = await _ask(it, token)
        assert (await _ask(it, token)).body == first.body
        await _record(it, WHOLE)
        assert (await _ask(it, token)).text("nickname") == "Countess"
        assert (await _ask(it, token)).text("nickname") == "Countess"
        grant_id = str((await it.introspect(token))["grant_id"])
        assert await it.write(lambda tx: tx.grants.revoke(grant_id, it.clock.now, "test"))
        (await _ask(it, token)).refused(401, "invalid_token")

    run(tmp_path, story, database_url)


def test_userinfo_refuses_expired_tokens(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        token = await _token(it)
        assert (await _ask(it, token)).status == 200
        assert (await _ask(it, token)).status == 200
        it.clock.forward(3_700)
        (await _ask(it, token)).refused(401, "invalid_token")

    run(tmp_path, story)
