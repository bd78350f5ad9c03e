"""Declared claims and roles: which token says what, on both engines."""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from tests.authorization.endpoints.admin_api.programs import Caller, caller
from tests.support.asgi import Answer, basic
from tests.support.harness import ADA, Harness, run
from valetkey.authorization.actions.users import UserRecord
from valetkey.authorization.model.user import User
from valetkey.authorization.protocol.claims import RESERVED_CLAIMS
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel import metrics
from valetkey.kernel.jose.jwt import parse

API = "https://calendar.example/mcp"
SCOPES = ("openid", "profile", "groups", "notes:read")
_MEMBERS = 100_000
_IN = ["access_token", "id_token"]


def _said(token: str) -> Mapping[str, object]:
    claims: Mapping[str, object] = json.loads(parse(token, ("jwt", "at+jwt")).payload)
    return claims


async def _declare(owner: Caller, name: str, source: str, *places: str, **more: object) -> None:
    body: dict[str, object] = {"from": source, "in": places, **more}
    answer = await owner.call("PUT", f"/claims/{name}", body)
    assert answer.json == {"changed": True}, answer.body


async def _api(owner: Caller, **more: object) -> str:
    scopes = {"calendar:read": "see your calendar"}
    body: dict[str, object] = {"identifier": API, "name": "Calendar", "scopes": scopes}
    body["roles"] = ["editor", "boss"]
    body |= {"machine_scopes": ["calendar:sync"], **more}
    made = await owner.call("POST", "/apis", body)
    assert made.status == 201, made.body
    return str(made.json["api_id"])


async def _claims(it: Harness, token: str) -> Mapping[str, object]:
    answer = await it.call("GET", "/oauth/userinfo", authorization=f"Bearer {token}")
    assert answer.status == 200, answer.body
    return answer.json


async def _at_api(it: Harness, client: str) -> Answer:
    """The answer to a code that is for the declared API alone."""
    api = await it.read(lambda tx: tx.apis.page("", 1))
    code = await it.code(
        client,
        f"openid {api[0].id}#calendar:read",
        apis=((api[0].id, api[0].generation),),
    )
    answer = await it.exchange(client, code, resource=API)
    assert answer.status == 200, answer.body
    return answer


def test_each_token_has_the_claims_declared_for_it(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        await owner.call("PUT", "/attributes/department", {"schema": {"type": "string"}})
        await owner.call("PATCH", f"/users/{ADA}/attributes", {"attributes": {"department": "ops"}})
        for name in ("team-red", "team-blue", "all"):
            await owner.call("POST", "/groups", {"name": name})
        for name in ("team-red", "all"):
            await owner.call("PUT", f"/groups/{name}/members/{ADA}")
        await it.client("app", scopes=SCOPES, access_token_format="jwt")
        await it.client("other", scopes=SCOPES, access_token_format="jwt")
        everywhere = ("id_token", "userinfo", "access_token")
        await _declare(owner, "department", "attribute:department", *everywhere, scope="profile")
        await _declare(owner, "teams", "groups:team-", *everywhere, clients=["app"])
        await _declare(owner, "tenant", "constant:eu", "access_token")
        await _declare(owner, "domain", "email_domain", "id_token")
        tokens = await it.exchange("app", await it.code("app", "openid profile"))
        of_id, of_access = _said(tokens.text("id_token")), _said(tokens.text("access_token"))
        userinfo = await _claims(it, tokens.text("access_token"))
        for claims in (of_id, of_access, userinfo):
            assert (claims["department"], claims["teams"]) == ("ops", ["team-red"])
        assert of_access["tenant"] == "eu"
        assert "tenant" not in {**of_id, **userinfo}
        # The address is not verified, and "no value" is no claim.
        assert "domain" not in of_id
        other = await it.exchange("other", await it.code("other", "openid"))
        for claims in (_said(other.text("id_token")), _said(other.text("access_token"))):
            assert not {"department", "teams"} & claims.keys()
        await owner.call("POST", f"/users/{ADA}/verify-email")
        await owner.call("PATCH", f"/users/{ADA}/attributes", {"attributes": {"department": "hr"}})
        again = await it.refresh("app", tokens.text("refresh_token"))
        of_id = _said(again.text("id_token"))
        assert (of_id["department"], of_id["domain"]) == ("hr", "example.com")
        assert (await _claims(it, tokens.text("access_token")))["department"] == "hr"
        metadata = (await it.call("GET", "/.well-known/openid-configuration")).json
        supported = metadata["claims_supported"]
        assert isinstance(supported, list)
        assert {"department", "teams", "domain"} <= {*supported}
        assert "tenant" not in supported
        assert (await owner.call("DELETE", "/claims/department")).json == {"changed": True}
        assert "department" not in await _claims(it, tokens.text("access_token"))

    run(tmp_path, story, database_url)


def test_roles_reach_tokens_of_their_api_from_users_and_groups(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        api_id = await _api(owner, access_token_format="reference")
        role = f"/apis/{api_id}/roles"
        await owner.call("POST", "/groups", {"name": "staff"})
        await owner.call("POST", "/groups", {"name": "night", "parent": "staff"})
        await owner.call("PUT", f"/groups/night/members/{ADA}")
        await it.client("app", scopes=SCOPES, access_token_format="jwt")
        tokens = await _at_api(it, "app")
        credential = await owner.call("POST", f"/apis/{api_id}/secrets", {})
        secret = str(credential.json["client_secret"])

        async def roles(answer: Answer) -> object:
            token = {"token": answer.text("access_token")}
            introspection = await it.post("/oauth/introspect", token, basic(api_id, secret))
            assert introspection.json["active"] is True
            return introspection.json["roles"]

        assert await roles(tokens) == []
        for changed in (True, False):
            answer = await owner.call("PUT", f"{role}/editor/users/{ADA}")
            assert answer.json == {"changed": changed}
        assert (await owner.call("PUT", f"{role}/boss/groups/staff")).json == {"changed": True}
        assert (await owner.call("PUT", f"{role}/king/users/{ADA}")).status == 404
        holders = (await owner.call("GET", f"{role}/boss")).json
        assert (holders["items"], holders["groups"]) == ([], ["staff"])
        # A token keeps what it was issued with; the next one has the roles.
        assert await roles(tokens) == []
        refreshed = await it.refresh("app", tokens.text("refresh_token"), resource=API)
        assert await roles(refreshed) == ["boss", "editor"]
        await _declare(owner, "roles", f"roles:{API}", "id_token")
        assert _said((await _at_api(it, "app")).text("id_token"))["roles"] == ["boss", "editor"]
        at_default = await it.exchange("app", await it.code("app", "openid"))
        assert "roles" not in _said(at_default.text("access_token"))
        assert _said(at_default.text("id_token"))["roles"] == ["boss", "editor"]
        assert (await owner.call("DELETE", f"{role}/editor/users/{ADA}")).json == {"changed": True}
        etag = (await owner.call("GET", f"/apis/{api_id}")).headers["etag"]
        less = {"roles": ["editor"]}
        await owner.call("PATCH", f"/apis/{api_id}", less, headers={"if-match": etag})
        assert await roles(await _at_api(it, "app")) == []

    run(tmp_path, story, database_url)


def test_next_token_has_the_current_value_of_every_claim_source(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        api_id = await _api(owner)
        role = f"/apis/{api_id}/roles"
        await _declare(owner, "teams", "groups", "access_token")
        await it.client("app", scopes=SCOPES, access_token_format="jwt")
        for name in ("staff", "crew"):
            await owner.call("POST", "/groups", {"name": name})
        await owner.call("POST", "/groups", {"name": "night", "parent": "staff"})
        refresh_token = (await _at_api(it, "app")).text("refresh_token")

        async def change(method: str, path: str, body: dict[str, object] | None = None) -> None:
            headers = {}
            if method == "PATCH":
                headers["if-match"] = (await owner.call("GET", path)).headers["etag"]
            answer = await owner.call(method, path, body, headers=headers)
            assert answer.status == 200, answer.body

        steps: list[tuple[str, str, dict[str, object] | None, str, str]] = [
            ("PUT", f"/groups/night/members/{ADA}", None, "night staff", ""),
            ("PUT", f"{role}/boss/groups/staff", None, "night staff", "boss"),
            ("PUT", f"{role}/editor/users/{ADA}", None, "night staff", "boss editor"),
            ("PATCH", "/groups/staff", {"name": "team"}, "night team", "boss editor"),
            ("PATCH", "/groups/night", {"parent": "crew"}, "crew night", "editor"),
            ("PATCH", "/groups/night", {"parent": "team"}, "night team", "boss editor"),
            ("DELETE", f"{role}/boss/groups/team", None, "night team", "editor"),
            ("PUT", f"{role}/boss/groups/night", None, "night team", "boss editor"),
            ("DELETE", f"{role}/editor/users/{ADA}", None, "night team", "boss"),
            ("PUT", f"/groups/crew/members/{ADA}", None, "crew night team", "boss"),
            ("DELETE", f"/groups/crew/members/{ADA}", None, "night team", "boss"),
            ("PUT", f"/users/{ADA}/groups", {"groups": "crew team"}, "crew team", ""),
            ("DELETE", "/groups/crew", None, "team", ""),
            ("PUT", f"{role}/boss/users/{ADA}", None, "team", "boss"),
            ("PATCH", f"/apis/{api_id}", {"roles": ["editor"]}, "team", ""),
        ]
        for method, path, body, teams, roles in steps:
            await change(method, path, body)
            tokens = await it.refresh("app", refresh_token, resource=API)
            refresh_token = tokens.text("refresh_token")
            claims = _said(tokens.text("access_token"))
            assert (claims["teams"], claims["roles"]) == (teams.split(), roles.split()), path

        said_of: list[tuple[str, str, dict[str, object] | None, object]] = [
            ("PUT", "/attributes/department", {"schema": {"type": "string"}}, None),
            ("PUT", "/claims/department", {"from": "attribute:department", "in": _IN}, None),
            ("PATCH", f"/users/{ADA}/attributes", {"attributes": {"department": "ops"}}, "ops"),
            ("PATCH", f"/users/{ADA}/attributes", {"attributes": {"department": "sea"}}, "sea"),
            ("PUT", "/claims/department", {"from": "constant:eu", "in": _IN}, "eu"),
            ("DELETE", "/claims/department", None, None),
        ]
        for method, path, body, department in said_of:
            assert (await owner.call(method, path, body)).status == 200, path
            tokens = await it.refresh("app", refresh_token, resource=API)
            refresh_token = tokens.text("refresh_token")
            for token in ("access_token", "id_token"):
                assert _said(tokens.text(token)).get("department") == department, (path, token)

    run(tmp_path, story, database_url)


def test_claims_of_a_client_itself_are_constants_only(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        await _declare(owner, "tenant", "constant:eu", "access_token")
        await _declare(owner, "groups", "groups", "access_token")
        own = f"{it.settings.resource.url}/"
        await _declare(owner, "with_slash", "constant:eu", "access_token", apis=[own])
        await it.client("svc", grant_types=("client_credentials",), access_token_format="jwt")
        claims = _said(await it.own_token("svc"))
        assert claims["tenant"] == claims["with_slash"] == "eu"
        assert "groups" not in claims

    run(tmp_path, story)


def test_reserved_names_and_unknown_sources_of_claims_are_refused(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        wrong: list[tuple[str, str, dict[str, object], str]] = [
            *((name, "constant:x", {}, "name") for name in sorted(RESERVED_CLAIMS)),
            ("1x", "constant:x", {}, "name"),
            ("groups", "constant:x", {}, "from"),
            ("x", "attribute:nothing", {}, "from"),
            ("x", "attribute:", {}, "from"),
            ("x", "roles:https://other.example", {}, "from"),
            ("x", "email_domain:x", {}, "from"),
            ("roles", f"roles:{API}", {"in": ["access_token"]}, "from"),
            ("x", "constant:x", {"clients": ["nobody"]}, "clients"),
            ("x", "constant:x", {"apis": ["https://other.example"]}, "apis"),
            ("x", "constant:x", {"in": []}, "in"),
            ("x", "constant:x", {"in": ["cookie"]}, "in"),
        ]
        for name, source, more, field in wrong:
            body = {"from": source, "in": ["id_token"], **more}
            answer = await owner.call("PUT", f"/claims/{name}", body)
            assert answer.status == 400, (name, source, answer.body)
            assert f'"pointer":"/{field}' in answer.body.decode().replace(" ", ""), answer.body
        assert (await owner.call("GET", "/claims")).items == []
        await owner.call("PUT", "/attributes/team", {})
        await _declare(owner, "team", "attribute:team", "id_token")
        assert (await owner.call("DELETE", "/attributes/team")).status == 409

    run(tmp_path, story)


def test_lists_above_eight_kibibytes_are_left_out_and_named(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        await it.client("app", scopes=SCOPES, access_token_format="jwt")

        def crowd(tx: Transaction) -> None:
            for number in range(150):
                tx.db.run(
                    "INSERT INTO user_groups (id, name, description, parent_id, created_at)"
                    " VALUES (:id, :id, '', '', 0)",
                    id=f"{'g' * 70}{number}",
                )
                tx.db.run(
                    "INSERT INTO group_members (uid, group_id, since) VALUES (:uid, :id, 0)",
                    uid=ADA,
                    id=f"{'g' * 70}{number}",
                )

        await it.write(crowd)
        tokens = await it.exchange("app", await it.code("app", "openid"))
        await _declare(owner, "teams", "groups", "access_token", "userinfo")
        named = {"teams": "userinfo"}
        for answer in (
            await it.exchange("app", await it.code("app", "openid")),
            await it.refresh("app", tokens.text("refresh_token")),
        ):
            claims = _said(answer.text("access_token"))
            assert (claims["_claim_names"], "teams" in claims) == (named, False)
            introspection = await it.introspect(answer.text("access_token"))
            assert (introspection["active"], introspection["_claim_names"]) == (True, named)
        bearer = f"Bearer {tokens.text('access_token')}"
        userinfo = await it.call("GET", "/oauth/userinfo", authorization=bearer)
        teams = userinfo.json["teams"]
        assert isinstance(teams, list)
        assert len(teams) == 150

    run(tmp_path, story, database_url)


def test_role_of_large_group_is_issued_and_removed(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        await owner.call("POST", "/groups", {"name": "everybody"})
        await owner.call("PUT", f"/groups/everybody/members/{ADA}")
        api_id = await _api(owner)
        await owner.call("PUT", f"/apis/{api_id}/roles/editor/groups/everybody")
        await it.client("app", scopes=SCOPES, access_token_format="jwt")

        def crowd(tx: Transaction) -> None:
            tx.db.run(
                "INSERT INTO group_members (uid, group_id, since)"
                " WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :most)"
                " SELECT 1000000 + n.i, g.id, 0 FROM n JOIN user_groups g ON g.name = 'everybody'",
                most=_MEMBERS,
            )

        await it.write(crowd)
        claims = _said((await _at_api(it, "app")).text("access_token"))
        assert claims["roles"] == ["editor"]
        assert (await owner.call("DELETE", "/groups/everybody")).json == {"changed": True}
        assert _said((await _at_api(it, "app")).text("access_token"))["roles"] == []

    run(tmp_path, story, database_url)


def test_disabled_user_gets_no_claims(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        await _declare(owner, "teams", "groups", "access_token", "userinfo")
        await it.client("app", scopes=SCOPES, access_token_format="reference")
        record = UserRecord("bob", "bob@example.com", "Bob")
        accounts, now = it.foundation.accounts(), it.clock.now
        bob = await it.write(lambda tx: accounts.register(tx, record, now))
        assert isinstance(bob, User)
        tokens = await it.exchange("app", await it.code("app", "openid", uid=bob.uid))
        assert (await it.introspect(tokens.text("access_token")))["teams"] == []
        await it.write(lambda tx: accounts.disable(tx, bob, now))
        assert await it.introspect(tokens.text("access_token")) == {"active": False}
        bearer = f"Bearer {tokens.text('access_token')}"
        userinfo = await it.call("GET", "/oauth/userinfo", authorization=bearer)
        userinfo.refused(401, "invalid_token")

    run(tmp_path, story)


def _looked_up() -> Counter[tuple[str, ...]]:
    """The look-ups so far by cache and result."""
    return Counter({labels: int(value) for labels, (value,) in metrics.CACHE.samples()})


def test_lookups_of_kept_claims_and_memberships_are_counted(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        api_id = await _api(owner)
        await _declare(owner, "teams", "groups", "access_token")
        await it.client("app", scopes=SCOPES, access_token_format="jwt")
        refresh_token = (await _at_api(it, "app")).text("refresh_token")

        async def refreshed() -> dict[tuple[str, ...], int]:
            nonlocal refresh_token
            before = _looked_up()
            tokens = await it.refresh("app", refresh_token, resource=API)
            refresh_token = tokens.text("refresh_token")
            lookups = _looked_up() - before
            return {key: lookups[key] for key in lookups if key[0] in {"claims", "memberships"}}

        await refreshed()
        assert await refreshed() == {("claims", "hit"): 1}
        role = f"/apis/{api_id}/roles/boss/users/{ADA}"
        assert (await owner.call("PUT", role)).status == 200
        assert (await refreshed()).keys() >= {("claims", "miss"), ("memberships", "miss")}

    run(tmp_path, story)
