"""The records that live here, asked for by the resource server with the bearer's token."""

import json
from pathlib import Path

import pytest

from tests.support.asgi import Answer, basic
from tests.support.cases import case
from tests.support.harness import ADA, CALLBACK, SECRET, Harness, run
from valetkey.authorization.model.user import TEXT_CLAIMS, StandardClaims, Uid
from valetkey.kernel.replace import replace

_OWN = ("client_credentials",)


async def _user_token(it: Harness, scope: str, client_id: str = "web") -> str:
    if client_id not in it.clients:
        await it.client(client_id)
    return (await it.tokens(client_id, scope)).text("access_token")


def _pointers(answer: Answer) -> set[object]:
    answer.refused(400, "invalid_request")
    errors = answer.json["errors"]
    assert isinstance(errors, list)
    assert all(error["detail"] for error in errors)
    return {error["pointer"] for error in errors}


def test_the_account_is_read_and_renamed(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        token = await _user_token(it, "account:read account:write")
        read = await it.ask(token, "account", "read")
        assert read.headers["cache-control"] == "no-store"
        record = {
            "uid": 1001,
            "username": "ada",
            "name": "Ada",
            "email": "ada@example.com",
            "email_verified": False,
            **dict.fromkeys(TEXT_CLAIMS, ""),
            "phone_number_verified": False,
            "address": {},
            "created_at": it.clock.now,
        }
        assert read.json == {"record": record}
        for verb in ("change", "replace"):
            answer = await it.ask(token, "account", verb, changes={"name": f"Ada {verb}"})
            assert answer.json == {"record": {**record, "name": f"Ada {verb}"}}
        assert (await it.ask(token, "account", "change")).status == 200
        assert (await it.events()).count("user.changed") == 2

    run(tmp_path, story)


def test_standard_claims_can_be_changed_singly_or_replaced_as_a_whole(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        token = await _user_token(it, "account:write")
        claims = {
            "nickname": "Countess",
            "phone_number": "+442079460000",
            "address": {"locality": "London", "country": "UK"},
        }
        answer = await it.ask(token, "account", "change", changes=claims)
        record = answer.json["record"]
        assert isinstance(record, dict)
        assert record["name"] == "Ada"
        assert {name: record[name] for name in claims} == claims
        answer = await it.ask(token, "account", "change", changes={"phone_number": ""})
        record = answer.json["record"]
        assert isinstance(record, dict)
        assert (record["phone_number"], record["nickname"]) == ("", "Countess")
        whole = {"name": "Ada", "birthdate": "1815-12-10"}
        record = (await it.ask(token, "account", "replace", changes=whole)).json["record"]
        assert isinstance(record, dict)
        assert (record["birthdate"], record["nickname"], record["address"]) == (
            "1815-12-10",
            "",
            {},
        )
        event_data = [e.data for e in await it.event_records() if e.name == "user.changed"]
        assert "London" not in str(event_data)
        assert "address" in str(event_data)

    run(tmp_path, story, database_url)


def test_changed_phone_number_is_unverified(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        token = await _user_token(it, "account:write")
        claims = StandardClaims(phone_number="+442079460000", phone_number_verified=True)
        user = await it.read(lambda tx: tx.users.find(ADA))
        assert user is not None
        await it.write(lambda tx: tx.users.change(replace(user, claims=claims)))
        for number, proved in (("+442079460000", True), ("+442079460001", False)):
            changes = {"phone_number": number}
            record = (await it.ask(token, "account", "change", changes=changes)).json["record"]
            assert isinstance(record, dict)
            assert record["phone_number_verified"] is proved

    run(tmp_path, story)


_WRONG_ACCOUNT_CHANGES: tuple[tuple[str, dict[str, object], set[str]], ...] = (
    ("change", {"name": 1}, {"/name"}),
    ("change", {"nickname": 1, "phone_number": "1", "zoneinfo": "x"}, {"/nickname"}),
    ("change", {"phone_number": "1", "zoneinfo": "x/y"}, {"/phone_number", "/zoneinfo"}),
    ("change", {"phone_number_verified": True}, {"/phone_number_verified"}),
    ("change", {"address": {"planet": "Mars"}}, {"/address"}),
    ("change", {"address": "London"}, {"/address"}),
    ("change", {"address": {"locality": "a\nb"}}, {"/address/locality"}),
    ("change", {"picture": "javascript:alert(1)"}, {"/picture"}),
    ("change", {"name": None}, {"/name"}),
    ("change", {"name": "a\u202eb"}, {"/name"}),
    ("change", {"name": "a" * 201}, {"/name"}),
    ("change", {"email": "x@y", "uid": 2, "other": {}}, {"/email", "/uid", "/other"}),
    ("replace", {}, {"/name"}),
)


def test_invalid_account_change_is_refused_with_pointers_to_the_errors(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        token = await _user_token(it, "write")
        for verb, changes, pointers in _WRONG_ACCOUNT_CHANGES:
            with case(verb, changes, pointers):
                assert _pointers(await it.ask(token, "account", verb, changes=changes)) == pointers
                assert "user.changed" not in await it.events()

    run(tmp_path, story)


def test_client_can_read_and_change_its_own_record(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web", grant_types=("authorization_code", "client_credentials"))
        token = await it.own_token("web")
        read = await it.ask(token, "client", "read")
        assert read.json["record"] == {
            "client_id": "web",
            "name": "Web",
            "description": "",
            "redirect_uri": CALLBACK,
            "redirect_uris": [CALLBACK],
            "grant_types": ["authorization_code", "client_credentials"],
            "scope": str(it.clients["web"].scope),
            "created_at": it.clock.now,
        }
        new = {"redirect_uri": "https://new.example/cb", "description": "New"}
        assert (await it.ask(token, "client", "replace", changes=new)).status == 200
        assert (await it.ask(token, "client", "replace", changes=new)).status == 200
        assert (await it.events()).count("client.changed") == 1
        client = await it.read(lambda tx: tx.clients.find("web"))
        assert client is not None
        assert (client.redirect_uris, client.description) == (("https://new.example/cb",), "New")
        several = ["https://new.example/cb", "https://more.example/cb"]
        answer = await it.ask(token, "client", "change", changes={"redirect_uris": several})
        assert answer.status == 200
        first = await it.ask(token, "client", "change", changes={"redirect_uri": CALLBACK})
        record = first.json["record"]
        assert isinstance(record, dict)
        assert record["redirect_uris"] == [CALLBACK, "https://more.example/cb"]

    run(tmp_path, story)


def test_client_without_redirect_uris_can_replace_its_own_record(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("svc", grant_types=_OWN)
        token = await it.own_token("svc")
        for changes in (
            {"redirect_uri": "", "description": "One"},
            {"redirect_uri": "", "redirect_uris": [], "description": "Two"},
        ):
            answer = await it.ask(token, "client", "replace", changes=changes)
            assert answer.status == 200, answer.body
        client = await it.read(lambda tx: tx.clients.find("svc"))
        assert client is not None
        assert (client.redirect_uris, client.description) == ((), "Two")

    run(tmp_path, story)


_WRONG_CLIENT_CHANGES: tuple[tuple[str, dict[str, object], set[str]], ...] = (
    ("change", {"redirect_uri": "http://evil.example/cb"}, {"/redirect_uri"}),
    ("change", {"redirect_uri": f"{CALLBACK}?code=x"}, {"/redirect_uri"}),
    ("replace", {"redirect_uri": f"{CALLBACK}?iss", "description": ""}, {"/redirect_uri"}),
    ("change", {"redirect_uri": ""}, {"/redirect_uri"}),
    ("change", {"redirect_uris": []}, {"/redirect_uris"}),
    ("change", {"redirect_uris": ["https://a.example/", "x"]}, {"/redirect_uris/1"}),
    ("change", {"redirect_uris": ["https://a.example/"] * 2}, {"/redirect_uris"}),
    ("change", {"redirect_uris": "https://a.example/"}, {"/redirect_uris"}),
    ("change", {"redirect_uris": [1]}, {"/redirect_uris"}),
    (
        "change",
        {"redirect_uri": "https://a.example/", "redirect_uris": [CALLBACK]},
        {"/redirect_uri"},
    ),
    ("change", {"description": "a" * 501}, {"/description"}),
    ("change", {"scope": "read", "secret": "x"}, {"/scope", "/secret"}),
    ("replace", {"description": ""}, {"/redirect_uri"}),
    ("replace", {"redirect_uri": CALLBACK}, {"/description"}),
)


def test_invalid_client_change_is_refused_with_pointers_to_the_errors(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web", grant_types=("authorization_code", "client_credentials"))
        token = await it.own_token("web")
        for verb, changes, pointers in _WRONG_CLIENT_CHANGES:
            with case(verb, changes, pointers):
                assert _pointers(await it.ask(token, "client", verb, changes=changes)) == pointers
                assert "client.changed" not in await it.events()

    run(tmp_path, story)


def test_authorizations_are_listed_read_and_ended(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await _user_token(it, "notes:read", "printer")
        token = await _user_token(it, "authorizations:read authorizations:write")
        records = (await it.ask(token, "authorizations", "list")).json["records"]
        assert isinstance(records, list)
        assert sorted(record["client_name"] for record in records) == ["Printer", "Web"]
        first = next(record for record in records if record["client_id"] == "printer")
        one = await it.ask(token, "authorizations", "read", id=first["id"])
        assert one.json == {"record": first}
        gone = await it.ask(token, "authorizations", "delete", id=first["id"])
        assert gone.json == {"record": None}
        for verb in ("read", "delete"):
            again = await it.ask(token, "authorizations", verb, id=first["id"])
            again.refused(404, "not_found")
        assert (await it.events()).count("grant.revoked") == 1
        assert await it.read(lambda tx: tx.consents.find(ADA, "printer")) is None

    run(tmp_path, story)


def test_authorization_of_another_user_is_not_found(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        token = await _user_token(it, "authorizations:read authorizations:write")
        await it.write(
            lambda tx: tx.db.run("INSERT INTO uids (uid, given_at) VALUES (:uid, 0)", uid=7)
        )
        await it.write(
            lambda tx: tx.db.run(
                "INSERT INTO users (uid, username, username_key, email, email_key, name,"
                " created_at, changed_at) VALUES (7, 'bob', 'bob', 'b@b', 'b@b', '', 0, 0)"
            )
        )
        code = await it.code("web", "notes:read", uid=Uid(7))
        bobs = (await it.exchange("web", code)).text("access_token")
        grant_id = (await it.introspect(bobs))["grant_id"]
        for verb in ("read", "delete"):
            answer = await it.ask(token, "authorizations", verb, id=grant_id)
            answer.refused(404, "not_found")
        assert (await it.introspect(bobs))["active"] is True

    run(tmp_path, story)


@pytest.mark.parametrize(
    ("scope", "object", "verb"),
    [
        ("notes:read", "account", "read"),
        ("account:read", "account", "change"),
        ("read", "account", "replace"),
        ("account:write", "authorizations", "list"),
        ("read write", "client", "read"),
        ("read", "authorizations", "delete"),
    ],
)
def test_scope_allows_only_the_object_that_it_names(
    tmp_path: Path, scope: str, object: str, verb: str
) -> None:
    async def story(it: Harness) -> None:
        token = await _user_token(it, scope)
        (await it.ask(token, object, verb)).refused(403, "insufficient_scope")

    run(tmp_path, story)


def test_client_credentials_token_cannot_read_an_account(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("svc", grant_types=_OWN)
        for token in (await it.own_token("svc"), await it.own_token("svc", scope="client:read")):
            for name, verb in (("account", "read"), ("authorizations", "list")):
                (await it.ask(token, name, verb)).refused(403, "insufficient_scope")
        (await it.ask(token, "client", "change")).refused(403, "insufficient_scope")

    run(tmp_path, story)


_MALFORMED_REQUESTS: tuple[bytes, ...] = (
    b"",
    b"[]",
    b"{",
    b'{"access_token": 1, "object": "account", "verb": "read"}',
    b'{"access_token": "x", "object": "account"}',
    b'{"access_token": "x", "object": "account", "verb": "read", "changes": null}',
    b'{"access_token": "x", "object": "account", "verb": "read", "changes": [1]}',
    b'{"access_token": "x", "object": "account", "verb": "read", "id": 5}',
    b'{"access_token": "\\ud800", "object": "account", "verb": "read"}',
    b'{"access_token": "\\u0000", "object": "account", "verb": "read"}',
)


def test_malformed_identity_request_is_refused(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        for body in _MALFORMED_REQUESTS:
            with case(body):
                (await it.raw_ask(body)).refused(400, "invalid_request")

    run(tmp_path, story)


def test_an_unknown_object_or_verb_is_refused_after_the_token(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        token = await _user_token(it, "read write")
        for name, verb in (("account", "delete"), ("notes", "read"), ("client", "")):
            (await it.ask("x", name, verb)).refused(401, "invalid_token")
            (await it.ask(token, name, verb)).refused(400, "invalid_request")

    run(tmp_path, story)


def test_identity_and_feed_require_the_resource_server(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("svc", grant_types=_OWN)
        token = await it.own_token("svc")
        body = json.dumps({"access_token": token, "object": "client", "verb": "read"}).encode()
        for authorization in ("", basic("svc", SECRET), basic("resource-server", "wrong")):
            answer = await it.call(
                "POST", "/oauth/identity", body, "application/json", authorization
            )
            answer.refused(401, "invalid_client")
            feed = await it.call("GET", "/oauth/revocations", authorization=authorization)
            feed.refused(401, "invalid_client")

    run(tmp_path, story)


def test_expired_token_is_refused(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        token = await _user_token(it, "account:read")
        assert (await it.ask(token, "account", "read")).status == 200
        it.clock.forward(3_600)
        answer = await it.ask(token, "account", "read")
        answer.refused(401, "invalid_token")
        assert answer.headers["www-authenticate"] == 'Bearer error="invalid_token"'

    run(tmp_path, story)


def test_change_of_a_stale_record_is_a_conflict(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        token = await _user_token(it, "account:read account:write")
        read = (await it.ask(token, "account", "read")).json["record"]
        changes = {"name": "First"}
        first = await it.ask(token, "account", "change", changes=changes, expected=read)
        assert first.status == 200
        for verb in ("change", "replace"):
            late = await it.ask(token, "account", verb, changes={"name": "Late"}, expected=read)
            late.refused(409, "conflict")
        own = await it.client("self", grant_types=_OWN)
        mine = (await it.token(own.id, grant_type="client_credentials")).text("access_token")
        record = (await it.ask(mine, "client", "read")).json["record"]
        for status, text in ((200, "one"), (409, "two")):
            arguments = {"changes": {"description": text}, "expected": record}
            assert (await it.ask(mine, "client", "change", **arguments)).status == status
        assert (await it.ask(token, "account", "read")).json["record"] == first.json["record"]

    run(tmp_path, story)
