"""Clients through the admin API: everything that administrators do with them."""

from pathlib import Path

from tests.authorization.endpoints.admin_api.programs import caller
from tests.support.harness import CALLBACK, Harness, run
from valetkey.authorization.actions.admin.permissions import CommandLine
from valetkey.authorization.actions.clients import metadata_of
from valetkey.authorization.model.client import Client, OpenIdRegistration
from valetkey.authorization.operations.client_records import LocalChange
from valetkey.authorization.operations.clients import CHANGE, change_client
from valetkey.authorization.operations.operation import call_of
from valetkey.kernel.replace import replace


def test_a_client_is_registered_read_and_changed(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        body = {"name": "Notes Printer", "redirect_uris": [CALLBACK], "scopes": ["notes:read"]}
        made = await owner.call("POST", "/clients", body)
        assert made.status == 201, made.body
        secret, client_id = made.json["client_secret"], made.record["client_id"]
        assert str(secret).startswith("vk_cs_")
        path = f"/clients/{client_id}"
        read = await owner.call("GET", path)
        assert (read.status, read.record) == (200, made.record)
        assert read.headers["etag"] == made.headers["etag"]
        assert str(secret) not in read.body.decode()
        without = await owner.call("PATCH", path, {"name": "Printer"})
        assert without.status == 428
        tag = {"if-match": read.headers["etag"]}
        changed = await owner.call("PATCH", path, {"name": "Printer"}, headers=tag)
        assert (changed.status, changed.record["name"]) == (200, "Printer"), changed.body
        assert changed.json["client_secret"] is None
        late = await owner.call("PATCH", path, {"name": "Copier"}, headers=tag)
        assert late.status == 412
        reply = await owner.call("GET", "/clients?q=print&verified=false")
        assert [client["client_id"] for client in reply.items] == [client_id]
        same = await owner.call("GET", path, headers={"if-none-match": changed.headers["etag"]})
        assert (same.status, same.body) == (304, b"")
        whole = dict((await owner.call("GET", path)).headers)
        del whole["content-length"], whole["content-type"]
        assert same.headers == whole

    run(tmp_path, story)


def test_spaces_around_texts_are_left_out(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        plain = {"name": "Printer", "description": "Prints.", "redirect_uris": [CALLBACK]}
        padded = {
            "name": " Printer ",
            "description": "Prints. ",
            "redirect_uris": [f"{CALLBACK} "],
        }
        made = await owner.call("POST", "/clients", padded)
        assert made.status == 201, made.body
        assert {name: made.record[name] for name in plain} == plain
        user = {"username": " bob", "email": "bob@x.example ", "given_name": " Bob "}
        address = {"street_address": "1 Way \r\n Town ", "country": " UK"}
        added = await owner.call("POST", "/users", {**user, "address": address})
        assert added.status == 201, added.body
        assert added.record["username"] == "bob"
        assert added.record["given_name"] == "Bob"
        assert added.record["address"] == {"street_address": "1 Way\nTown", "country": "UK"}
        group = await owner.call("POST", "/groups", {"name": " staff "})
        assert (group.status, group.json["name"]) == (201, "staff"), group.body
        for path in ("/scim-credentials", "/tokens"):
            token = {"permissions": ["read"], "lifetime": 60} if path == "/tokens" else {}
            named = await owner.call("POST", path, {"name": " Verzeichnis Zürich ", **token})
            assert named.status == 201, named.body
            assert "Verzeichnis Zürich".encode() in named.body
            for name in ("", " ", "a\u202eb", "a\u061cb", "a\nb", "x" * 81):
                refused = await owner.call("POST", path, {"name": name, **token})
                assert (refused.status, b"1 to 80 printable" in refused.body) == (400, True)

    run(tmp_path, story)


def test_new_redirect_uris_must_be_listed_by_the_sector(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        sector = OpenIdRegistration(sector_identifier_uri="https://nowhere.invalid/sector")
        uris = (CALLBACK, "https://app.example/other")
        client = await it.client("web", redirect_uris=uris, openid=sector)
        owner = await caller(it)
        # Nothing answers there, so nothing can be listed: only what needs no list is allowed.
        for change, status in (
            ({"redirect_uris": [*uris, "https://app.example/third"]}, 400),
            ({"redirect_uris": ["https://app.example/third"], "scopes": ["notes:raed"]}, 400),
            ({"redirect_uris": [CALLBACK], "name": "Printer"}, 200),
            ({"redirect_uris": list(uris)}, 400),
        ):
            read = await owner.call("GET", "/clients/web")
            tag = {"if-match": read.headers["etag"]}
            changed = await owner.call("PATCH", "/clients/web", change, headers=tag)
            assert changed.status == status, changed.body
            if status == 400:
                assert b"sector_identifier_uri" in changed.body
        # The client changed after its sector was judged.
        body = LocalChange({"redirect_uris": uris})
        call = call_of(
            it.foundation.services, CHANGE, CommandLine(), it.clock.now, {"client_id": "web"}, body
        )
        current = await it.read(lambda tx: tx.clients.find("web"))
        assert current is not None
        faults = await it.write(lambda tx: change_client(client, tx, call, current))
        assert isinstance(faults, tuple)
        assert "try again" in faults[0].detail
        # The portal and the resource server's API fetch nothing.
        for door in ("portal", "api"):
            keeper = it.foundation.registrar(door)
            for uris_then, allowed in ((uris, False), ((CALLBACK,), True)):
                metadata = replace(metadata_of(current), redirect_uris=uris_then)
                changed_to = await it.write(
                    lambda tx, by=keeper, to=metadata: by.change(tx, current, to, it.clock.now)  # type: ignore[misc]
                )
                assert isinstance(changed_to, Client) is allowed

    run(tmp_path, story)


def test_client_verification_is_recorded_once_and_can_be_ended(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        owner = await caller(it)
        assert (await owner.call("PUT", "/clients/web/verified")).json == {"changed": True}
        assert (await owner.call("PUT", "/clients/web/verified")).json == {"changed": False}
        client = await it.read(lambda tx: tx.clients.find("web"))
        assert client is not None
        assert client.verified_at == it.clock.now
        assert (await owner.call("DELETE", "/clients/web/verified")).json == {"changed": True}
        assert sorted(await it.events()) == [
            "api_token.issued",
            "client.verified",
            "client_verification.ended",
        ]

    run(tmp_path, story)


def test_change_of_redirect_uris_ends_verification(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web", grant_types=("authorization_code", "client_credentials"))
        owner = await caller(it)
        await owner.call("PUT", "/clients/web/verified")
        token = await it.own_token("web")
        described = await it.ask(token, "client", "change", changes={"description": "New"})
        assert described.status == 200
        assert (await owner.call("GET", "/clients/web")).record["verified_at"] is not None
        elsewhere = {"redirect_uris": ["https://elsewhere.example/cb"]}
        assert (await it.ask(token, "client", "change", changes=elsewhere)).status == 200
        assert (await owner.call("GET", "/clients/web")).record["verified_at"] is None
        assert "client_verification.ended" in await it.events()

    run(tmp_path, story)


def test_disabled_client_loses_its_tokens(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        tokens = await it.tokens("web")
        owner = await caller(it)
        use = (await owner.call("GET", "/clients/web")).json["use"]
        assert isinstance(use, dict)
        assert (use["people"], use["authorizations"]) == (1, 1)
        assert (await owner.call("POST", "/clients/web/disable")).json == {"changed": True}
        assert (await it.introspect(tokens.text("access_token")))["active"] is False
        assert [c["client_id"] for c in (await owner.call("GET", "/clients?disabled=true")).items]
        assert (await owner.call("POST", "/clients/web/enable")).json == {"changed": True}

    run(tmp_path, story)


def test_two_secrets_are_valid_at_once_and_end_separately(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web", grant_types=("client_credentials",))
        owner = await caller(it)
        made = await owner.call("POST", "/clients/web/secrets", {"others_live": 60})
        assert made.status == 201
        await it.own_token("web")
        await it.own_token("web", client_secret=str(made.json["client_secret"]))
        secrets = (await owner.call("GET", "/clients/web")).record["secrets"]
        assert isinstance(secrets, list)
        new = next(secret["id"] for secret in secrets if secret["ends_at"] is None)
        assert (await owner.call("DELETE", f"/clients/web/secrets/{new}")).status == 204
        assert (await owner.call("DELETE", f"/clients/web/secrets/{new}")).status == 404
        refused = await it.token(
            "web", grant_type="client_credentials", client_secret=str(made.json["client_secret"])
        )
        assert refused.status == 401

    run(tmp_path, story)


def test_legacy_grants_are_set_one_by_one(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web", profile="classic")
        owner = await caller(it)
        on = await owner.call("PUT", "/clients/web/legacy/implicit")
        assert (on.status, on.json["grant_types"]) == (
            200,
            ["authorization_code", "implicit", "refresh_token"],
        )
        reply = await owner.call("GET", "/clients?legacy=true")
        assert [client["client_id"] for client in reply.items] == ["web"]
        off = await owner.call("DELETE", "/clients/web/legacy/implicit")
        assert "implicit" not in str(off.json["grant_types"])
        assert (await owner.call("PUT", "/clients/web/legacy/refresh_token")).status == 404
        body = {"name": "Old", "redirect_uris": [CALLBACK], "grant_types": ["implicit"]}
        refused = await owner.call("POST", "/clients", {**body, "profile": "classic"})
        assert refused.status == 400
        assert "/grant_types/0" in refused.body.decode()

    run(tmp_path, story)


def test_unusable_values_of_a_new_client_are_left_out_and_listed(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        body = {
            "name": "Printer",
            "redirect_uris": [CALLBACK],
            "grant_types": ["authorization_code", "refresh_token", "magic", "implicit"],
            "scopes": ["openid", "nothing:read"],
            "default_scopes": ["openid", "nothing:read"],
            "logo_uri": "http://app.example/logo.png",
            "profile": "classic",
        }
        made = await owner.call("POST", "/clients", body)
        assert made.status == 201, made.body
        record, left_out = made.record, made.json["left_out"]
        assert record["grant_types"] == ["authorization_code", "refresh_token"]
        assert (record["scopes"], record["default_scopes"]) == (["openid"], ["openid"])
        assert record["logo_uri"] == ""
        assert isinstance(left_out, list)
        assert [(omission["field"], omission["value"]) for omission in left_out] == [
            ("grant_types", "magic"),
            ("grant_types", "implicit"),
            ("scopes", "nothing:read"),
            ("logo_uri", "http://app.example/logo.png"),
            ("default_scopes", "nothing:read"),
        ]
        assert all(omission["detail"] for omission in left_out)

    run(tmp_path, story)


def test_unusable_values_of_a_change_leave_the_stored_values(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        good = "https://app.example/logo.png"
        body = {"name": "Printer", "redirect_uris": [CALLBACK], "scopes": ["openid"]}
        made = await owner.call("POST", "/clients", {**body, "logo_uri": good})
        assert made.json["left_out"] == []
        path = f"/clients/{made.record['client_id']}"
        changes: dict[str, object] = {"logo_uri": "http://x.example/", "scopes": ["a:b"]}
        tag = {"if-match": made.headers["etag"]}
        changed = await owner.call("PATCH", path, changes, headers=tag)
        assert changed.status == 200, changed.body
        assert (changed.record["logo_uri"], changed.record["scopes"]) == (good, ["openid"])
        left_out = changed.json["left_out"]
        assert isinstance(left_out, list)
        assert [omission["field"] for omission in left_out] == ["scopes", "logo_uri"]
        # What identifies the app, and grants of which nothing would remain, are refused.
        tag = {"if-match": changed.headers["etag"]}
        for wrong in ({"redirect_uris": ["http://app.example/"]}, {"grant_types": ["magic"]}):
            refused = await owner.call("PATCH", path, {**changes, **wrong}, headers=tag)
            assert refused.status == 400
        assert (await owner.call("GET", path)).record == changed.record

    run(tmp_path, story)


def test_list_pages_continue_without_gap_or_repetition(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        for number in range(5):
            await it.client(f"app{number}")
            it.clock.forward(number % 2)
        owner = await caller(it)
        seen: list[object] = []
        path = "/clients?limit=2"
        while path:
            page = await owner.call("GET", path)
            assert page.status == 200
            seen += [client["client_id"] for client in page.items]
            link = page.headers.get("link", "")
            assert bool(link) == (page.json["next"] is not None)
            path = link.partition("<")[2].partition(">")[0].removeprefix("/admin/api/v1")
        assert len(seen) == len(set(seen)) == 5
        assert seen[0] == "app4"
        # Sorted without the slash that one of them was declared with.
        names = ("https://a.example", "https://b.example/", "https://b.example-c.org")
        for identifier in names:
            await owner.call("POST", "/apis", {"identifier": identifier, "name": "An API"})
        identifiers, after = list[object](), ""
        while len(identifiers) < len(names):
            page = await owner.call("GET", f"/apis?limit=1{after}")
            identifiers += [api["identifier"] for api in page.items]
            assert (page.json["next"] is None) is (len(identifiers) == len(names))
            after = f"&cursor={page.json['next']}"
        assert identifiers == [*names]

    run(tmp_path, story, database_url)


def test_events_are_filtered_by_every_query_parameter(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        owner = await caller(it)
        await owner.call("PUT", "/clients/web/verified")
        id_ = (await owner.call("GET", "/token")).record["id"]
        for query in (
            "client_id=web&name=client.verified",
            "name=client.verified",
            f"done_by=user%201001%20token%20{id_}",
            "since=0&until=9007199254740992&name=client.verified",
        ):
            reply = await owner.call("GET", f"/events?{query}")
            assert [event["name"] for event in reply.items] == ["client.verified"], query
        assert (await owner.call("GET", "/events?uid=1001&name=user.registered")).items
        assert not (await owner.call("GET", "/events?uid=77")).items
        assert (await owner.call("GET", "/events?outcome=success&name=user.registered")).items
        assert not (await owner.call("GET", "/events?outcome=failure&name=user.registered")).items
        seen, path = list[object](), "/events?limit=2"
        while path:
            page = await owner.call("GET", path)
            seen += [event["id"] for event in page.items]
            link = page.headers.get("link", "")
            path = link.partition("<")[2].partition(">")[0].removeprefix("/admin/api/v1")
        assert len(seen) == len(set(seen)) > 4

    run(tmp_path, story, database_url)


def test_resource_server_client_cannot_be_changed(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        for method, path in (("POST", "disable"), ("PUT", "verified"), ("POST", "secrets")):
            body: object = {} if path == "secrets" else None
            answer = await owner.call(method, f"/clients/resource-server/{path}", body)
            assert answer.status == 403, path

    run(tmp_path, story)


def test_percent_encoded_client_id_is_found(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("odd@name/1")
        owner = await caller(it)
        for written in ("odd@name%2F1", "odd%40name%2f1"):
            assert (await owner.call("GET", f"/clients/{written}")).record["client_id"]
        for written in ("odd%40name", "%ff", "%zz", "%C3%A9"):
            assert (await owner.call("GET", f"/clients/{written}")).status == 404

    run(tmp_path, story)
