"""What the token endpoint says of a sign-in: ID tokens with codes and refreshes (Core 3.1, 12)."""

from pathlib import Path

import pytest

from tests.support.asgi import Answer
from tests.support.harness import ADA, Harness, run
from valetkey.authorization.model.client import OpenIdRegistration
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.tokens.id_token import half_hash
from valetkey.kernel.jose import jwt
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.jose.key import KeySet
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import Fingerprint

IDENTITY = ("openid", "profile", "email", "offline_access")
PASSWORD = "correct horse battery"


async def _read(it: Harness, answer: Answer, client_id: str = "app") -> dict[str, object]:
    keys = KeySet.parse((await it.call("GET", "/oauth/jwks")).body)
    return jwt.verify(
        answer.text("id_token"),
        keys,
        typ=("jwt",),
        algorithms=(Algorithm.ES256,),
        audience=client_id,
        now=it.clock.now,
        issuer="http://localhost:8400",
    )


async def _exchange(it: Harness, scope: str = "openid", **options: object) -> Answer:
    if "app" not in it.clients:
        await it.client("app", scopes=(*IDENTITY, "notes:read"))
    answer = await it.exchange("app", await it.code("app", scope, **options))  # type: ignore[arg-type]
    assert answer.status == 200, answer.body
    return answer


def test_id_token_of_a_code_describes_its_sign_in(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        began = it.clock.now
        answer = await _exchange(it, nonce="n-1", methods=("pwd",))
        claims = await _read(it, answer)
        assert claims["sub"] == "1001"
        assert claims["aud"] == "app"
        assert (claims["iat"], claims["exp"]) == (began, began + 3_600)
        assert claims["auth_time"] == began
        assert (claims["amr"], claims["acr"]) == (["pwd"], "urn:valetkey:acr:password")
        assert claims["nonce"] == "n-1"
        sid = str(claims["sid"])
        assert (await it.read(lambda tx: tx.sessions.find_by_id(sid))) is not None
        assert claims["at_hash"] == half_hash(answer.text("access_token"), "ES256")
        assert "c_hash" not in claims

    run(tmp_path, story, database_url)


def test_without_openid_no_id_token_is_issued(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        assert "id_token" not in (await _exchange(it, "notes:read profile")).json

    run(tmp_path, story)


@pytest.mark.parametrize(
    ("chosen", "self_registered", "carries"),
    [
        ("auto", False, True),
        ("auto", True, False),
        ("scope", True, True),
        ("requested", False, False),
    ],
)
def test_claims_of_scopes_in_the_id_token_depend_on_the_client(
    tmp_path: Path, chosen: str, self_registered: bool, carries: bool
) -> None:
    async def story(it: Harness) -> None:
        def prepare(tx: Transaction) -> None:
            client = tx.clients.find("app")
            assert client is not None
            tx.clients.change(replace(client, openid=OpenIdRegistration(id_token_claims=chosen)))
            if self_registered:
                tx.registrations.add("app", Fingerprint("f"), Fingerprint("m"), it.clock.now)

        await it.client("app", scopes=(*IDENTITY, "notes:read"))
        await it.write(prepare)
        answer = await _exchange(it, "openid profile email")
        claims = await _read(it, answer)
        assert ({"name", "email", "email_verified"} <= set(claims)) is carries
        if carries:
            assert "phone_number" not in claims
            again = await it.refresh("app", answer.text("refresh_token"))
            assert (await _read(it, again))["email"] == claims["email"]
            return
        claims_request = '{"id_token":{"email":null}}'
        claims = await _read(it, await _exchange(it, "openid profile", claims=claims_request))
        assert claims["email"] == "ada@example.com"

    run(tmp_path, story)


def test_refreshed_id_token_describes_the_same_sign_in(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        claims_request = '{"id_token":{"email":null}}'
        first = await _exchange(
            it, "openid notes:read", nonce="n-1", methods=("pwd",), claims=claims_request
        )
        before = await _read(it, first)
        it.clock.forward(100)
        again = await it.refresh("app", first.text("refresh_token"))
        after = await _read(it, again)
        for name in ("iss", "sub", "aud", "auth_time", "sid", "acr", "amr", "email"):
            assert after[name] == before[name], name
        assert after["iat"] == it.clock.now
        assert "nonce" not in after
        assert after["at_hash"] == half_hash(again.text("access_token"), "ES256")
        narrow = await it.refresh("app", first.text("refresh_token"), scope="notes:read")
        assert "id_token" not in narrow.json

    run(tmp_path, story, database_url)


def test_password_grant_issues_no_id_token(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("own", grant_types=("password", "refresh_token"), scopes=IDENTITY)
        await it.password(PASSWORD)
        form = {"grant_type": "password", "username": "ada", "password": PASSWORD}
        answer = await it.token("own", **form, scope="openid email")
        assert answer.status == 200, answer.body
        assert "id_token" not in answer.json
        again = await it.refresh("own", answer.text("refresh_token"))
        assert "id_token" not in again.json
        bearer = f"Bearer {again.text('access_token')}"
        userinfo = await it.call("GET", "/oauth/userinfo", authorization=bearer)
        assert userinfo.json["email"] == "ada@example.com"

    run(tmp_path, story)


def test_gr_09_client_credentials_with_identity_scopes_are_refused(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("robot", grant_types=("client_credentials", "authorization_code"))
        for scope in ("openid", "openid client:read", "offline_access", "email"):
            answer = await it.token("robot", grant_type="client_credentials", scope=scope)
            answer.refused(400, "invalid_scope")

    run(tmp_path, story)


@pytest.mark.parametrize("offline", [True, False])
def test_refresh_token_survives_sign_out_only_with_offline_access(
    tmp_path: Path, database_url: str, offline: bool
) -> None:
    async def story(it: Harness) -> None:
        await it.client("app", scopes=IDENTITY, ends_with_session=True)
        answer = await _exchange(it, "openid offline_access" if offline else "openid")
        sid = (await _read(it, answer))["sid"]
        assert await it.write(lambda tx: tx.sessions.end(str(sid), it.clock.now))
        again = await it.refresh("app", answer.text("refresh_token"))
        assert again.status == (200 if offline else 400)
        if offline:
            assert (await _read(it, again))["sid"] == sid

    run(tmp_path, story, database_url)


@pytest.mark.parametrize(
    ("scope", "told"),
    [
        ("openid", set[str]()),
        ("profile", {"name"}),
        ("email", {"email", "email_verified"}),
        ("openid profile email", {"name", "email", "email_verified"}),
    ],
)
def test_info_contains_only_the_claims_of_the_identity_scopes(
    tmp_path: Path, scope: str, told: set[str]
) -> None:
    async def story(it: Harness) -> None:
        info = (await _exchange(it, scope)).json["info"]
        assert isinstance(info, dict)
        assert set(info) == told

    run(tmp_path, story)


def test_id_token_of_a_pairwise_client_has_a_pairwise_subject(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("app", scopes=IDENTITY)

        def work(tx: Transaction) -> None:
            client = tx.clients.find("app")
            assert client is not None
            openid = replace(client.openid, subject_type="pairwise", sector="a.example")
            assert tx.clients.change(replace(client, openid=openid))

        await it.write(work)
        claims = await _read(it, await _exchange(it))
        assert claims["sub"] != str(ADA)
        assert len(str(claims["sub"])) == 43

    run(tmp_path, story)
