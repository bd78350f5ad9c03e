"""The management API of SSF 1.0 section 8.1, and the metadata of section 7."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.authorization.signals.clients import (
    CAEP,
    FETCH,
    POLL,
    PUSH,
    RISC,
    SSF,
    SignalClient,
    happen,
    receiver_of,
    signal_client,
)
from tests.support.harness import ADA, Harness, run
from tests.support.signal_receiver import SECRET
from tests.support.wait import until
from valetkey.authorization.actions.bulk_revocation import delete_clients
from valetkey.authorization.model.event.accounts import UserDisabled, UserEnabled
from valetkey.authorization.model.user import Role
from valetkey.authorization.signals.endpoints import METADATA, MOST_ACKNOWLEDGED
from valetkey.authorization.signals.model import (
    LEGACY_PUSH,
    MOST_STREAMS_OF_CLIENT,
    SUPPORTED,
    VERIFY_EVERY,
)
from valetkey.authorization.signals.storage import SignalQueue
from valetkey.kernel.replace import replace

URL = "https://receiver.example/events"


def managing(story: Callable[[Harness], object], path: Path, database: str = "") -> None:
    run(path, story, database, **FETCH)  # type: ignore[arg-type]


def test_metadata_describes_the_transmitter(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        answer = await it.call("GET", METADATA)
        issuer = it.foundation.issuer
        assert answer.headers["content-type"] == "application/json"
        assert answer.json == {
            "spec_version": "1_0",
            "issuer": issuer,
            "jwks_uri": f"{issuer}/oauth/jwks",
            "delivery_methods_supported": [PUSH, POLL, LEGACY_PUSH],
            "configuration_endpoint": f"{issuer}/ssf/streams",
            "status_endpoint": f"{issuer}/ssf/status",
            "add_subject_endpoint": f"{issuer}/ssf/subjects/add",
            "remove_subject_endpoint": f"{issuer}/ssf/subjects/remove",
            "verification_endpoint": f"{issuer}/ssf/verification",
            "authorization_schemes": [{"spec_urn": "urn:ietf:rfc:6749"}],
            "default_subjects": "ALL",
        }

    managing(story, tmp_path)


def test_stream_is_created_read_updated_replaced_and_deleted(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        client = await signal_client(it)
        assert (await client.call("GET", "/ssf/streams")).body == b"[]"
        event_types = [f"{CAEP}session-revoked", "urn:example:unknown"]
        delivery = {"method": PUSH, "endpoint_url": URL, "authorization_header": SECRET}
        made = await client.create(
            delivery=delivery, events_requested=event_types, description="Ours", more=1
        )
        stream_id = made["stream_id"]
        shown: dict[str, Any] = {
            "stream_id": stream_id,
            "iss": it.foundation.issuer,
            "aud": "receiver",
            "delivery": {"method": PUSH, "endpoint_url": URL},
            "events_supported": list(SUPPORTED),
            "events_requested": event_types,
            "events_delivered": event_types[:1],
            "min_verification_interval": VERIFY_EVERY,
            "description": "Ours",
        }
        assert made == shown
        read = await client.call("GET", f"/ssf/streams?stream_id={stream_id}")
        assert read.json == shown
        assert json.loads((await client.call("GET", "/ssf/streams")).body) == [shown]
        patch = {"stream_id": stream_id, "events_requested": [f"{RISC}account-disabled"]}
        answer = await client.call("PATCH", "/ssf/streams", patch)
        assert answer.json == shown | {
            "events_requested": [f"{RISC}account-disabled"],
            "events_delivered": [f"{RISC}account-disabled"],
        }
        assert (await client.call("PATCH", "/ssf/streams", {**shown, **patch})).status == 400
        whole: dict[str, Any] = {"stream_id": stream_id, "iss": shown["iss"]}
        whole["delivery"] = {"method": POLL}
        answer = await client.call("PUT", "/ssf/streams", whole)
        polled = {"method": POLL, "endpoint_url": f"{shown['iss']}/ssf/streams/{stream_id}/poll"}
        assert answer.json == {
            **{name: value for name, value in shown.items() if name != "description"},
            "delivery": polled,
            "events_requested": list(SUPPORTED),
            "events_delivered": list(SUPPORTED),
        }
        again = await client.call("PUT", "/ssf/streams", answer.json)
        assert (again.status, again.json) == (200, answer.json)
        gone = await client.call("DELETE", f"/ssf/streams?stream_id={stream_id}")
        assert (gone.status, gone.body) == (204, b"")
        for method, path in (
            ("GET", f"/ssf/streams?stream_id={stream_id}"),
            ("DELETE", f"/ssf/streams?stream_id={stream_id}"),
            ("GET", f"/ssf/status?stream_id={stream_id}"),
        ):
            (await client.call(method, path)).refused(404, "not_found")

    managing(story, tmp_path, database_url)


def test_patch_keeps_the_push_secret_and_no_response_shows_it(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        client = await signal_client(it)
        async with receiver_of(it) as receiver:
            stream_id = await client.push_to(receiver.url("/first"))
            rows = await it.read(lambda tx: tx.db.rows("SELECT sealed FROM signal_streams"))
            assert SECRET not in str(rows)
            patch: dict[str, Any] = {"stream_id": stream_id, "description": "changed"}
            answer = await client.call("PATCH", "/ssf/streams", patch)
            assert SECRET.encode() not in answer.body
            await happen(it)
            await until(lambda: len(receiver.of("/first")) == 1)
            delivery = {"method": PUSH, "endpoint_url": receiver.url("/second")}
            patch = {"stream_id": stream_id, "delivery": delivery}
            assert (await client.call("PATCH", "/ssf/streams", patch)).status == 200
            await happen(it)
            await until(lambda: len(receiver.of("/second")) == 1)
            assert receiver.faults == ["authorization: None"]

    managing(story, tmp_path)


def test_client_sees_and_changes_only_its_own_streams(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        client, other = await signal_client(it), await signal_client(it, "other")
        stream_id = (await client.create())["stream_id"]
        assert (await other.call("GET", "/ssf/streams")).body == b"[]"
        subject = {"format": "email", "email": "ada@example.com"}
        for method, path, body in (
            ("GET", f"/ssf/streams?stream_id={stream_id}", None),
            ("PATCH", "/ssf/streams", {"stream_id": stream_id, "description": "mine"}),
            ("PUT", "/ssf/streams", {"stream_id": stream_id}),
            ("DELETE", f"/ssf/streams?stream_id={stream_id}", None),
            ("GET", f"/ssf/status?stream_id={stream_id}", None),
            ("POST", "/ssf/status", {"stream_id": stream_id, "status": "paused"}),
            ("POST", "/ssf/subjects/add", {"stream_id": stream_id, "subject": subject}),
            ("POST", "/ssf/subjects/remove", {"stream_id": stream_id, "subject": subject}),
            ("POST", "/ssf/verification", {"stream_id": stream_id}),
            ("POST", f"/ssf/streams/{stream_id}/poll", {"returnImmediately": True}),
        ):
            (await other.call(method, path, body)).refused(404, "not_found")
        assert (await client.call("GET", "/ssf/streams")).status == 200

    managing(story, tmp_path)


async def _every_request(client: SignalClient, stream_id: str, token: str) -> list[tuple[str, int]]:
    statuses = list[tuple[str, int]]()
    subject = {"format": "email", "email": "ada@example.com"}
    for method, path, body in (
        ("GET", "/ssf/streams", None),
        ("GET", f"/ssf/status?stream_id={stream_id}", None),
        ("POST", f"/ssf/streams/{stream_id}/poll", {"returnImmediately": True}),
        ("POST", "/ssf/subjects/add", {"stream_id": stream_id, "subject": subject}),
        ("POST", "/ssf/subjects/remove", {"stream_id": stream_id, "subject": subject}),
        ("POST", "/ssf/verification", {"stream_id": stream_id}),
        ("POST", "/ssf/status", {"stream_id": stream_id, "status": "enabled"}),
        ("PATCH", "/ssf/streams", {"stream_id": stream_id}),
        ("PUT", "/ssf/streams", {"stream_id": stream_id}),
        ("POST", "/ssf/streams", {}),
        ("DELETE", f"/ssf/streams?stream_id={stream_id}", None),
    ):
        answer = await client.call(method, path, body, token=token)
        challenge = answer.headers.get("www-authenticate", "")
        assert (answer.status in {401, 403}) == bool(challenge), (method, path, answer)
        statuses.append((method, answer.status))
    return statuses


def test_every_request_needs_a_live_token_with_a_scope(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        client = await signal_client(it)
        stream_id = (await client.create())["stream_id"]
        for token in ("", "nonsense"):
            statuses = await _every_request(client, stream_id, token)
            assert {status for _, status in statuses} == {401}
        await it.client("plain", redirect_uris=(), grant_types=("client_credentials",), scopes=())
        statuses = await _every_request(client, stream_id, await it.own_token("plain"))
        assert {status for _, status in statuses} == {403}
        reads = await it.own_token("receiver", scope="ssf.read")
        statuses = await _every_request(client, stream_id, reads)
        assert [status for _, status in statuses] == [200] * 3 + [403] * 8
        query = await it.call("GET", f"/ssf/streams?access_token={client.token}")
        assert query.status == 401
        registered = it.clients["receiver"]
        await it.change(replace(registered, disabled_at=it.clock.now))
        statuses = await _every_request(client, stream_id, client.token)
        assert {status for _, status in statuses} == {401}

    managing(story, tmp_path)


def test_token_of_a_user_counts_if_the_user_is_an_administrator(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        scopes = ("openid", "email", "ssf.read", "ssf.manage")
        await it.client("apple", scopes=scopes, grant_types=("authorization_code",))
        token = (await it.tokens("apple", " ".join(scopes))).text("access_token")
        client = SignalClient(it, token)
        (await client.call("POST", "/ssf/streams", {})).refused(403, "insufficient_scope")
        (await client.call("GET", "/ssf/streams")).refused(403, "insufficient_scope")

        async def become(role: Role | None) -> None:
            await it.write(lambda tx: tx.user_directory.set_role(ADA, role, it.clock.now))

        await become(Role.AUDITOR)
        (await client.call("POST", "/ssf/streams", {})).refused(403, "insufficient_scope")
        assert (await client.call("GET", "/ssf/streams")).status == 200
        await become(Role.ADMINISTRATOR)
        assert (await client.call("POST", "/ssf/streams", {})).status == 201
        await become(None)
        (await client.call("GET", "/ssf/streams")).refused(403, "insufficient_scope")

    managing(story, tmp_path)


def test_number_of_streams_of_a_client_is_bounded(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        client = await signal_client(it)
        for _ in range(MOST_STREAMS_OF_CLIENT):
            await client.create()
        (await client.call("POST", "/ssf/streams", {})).refused(409, "conflict")

    managing(story, tmp_path)


_ID = "ss_0123456789abcdefghijkl"
_SUBJECT = {"format": "email", "email": "ada@example.com"}
_MALFORMED: tuple[tuple[str, str, object], ...] = (
    *(
        (method, path, body)
        for method, path in (
            ("POST", "/ssf/streams"),
            ("PATCH", "/ssf/streams"),
            ("PUT", "/ssf/streams"),
            ("POST", "/ssf/status"),
            ("POST", "/ssf/subjects/add"),
            ("POST", "/ssf/subjects/remove"),
            ("POST", "/ssf/verification"),
            ("POST", f"/ssf/streams/{_ID}/poll"),
        )
        for body in (b"{", b"[]", b'"x"', b"\xff", b'{"a":1,"a":2}', b'{"a":"\\ud800"}', b"1" * 99)
    ),
    ("POST", "/ssf/streams", {"delivery": "push"}),
    ("POST", "/ssf/streams", {"delivery": {"method": "urn:other", "endpoint_url": URL}}),
    ("POST", "/ssf/streams", {"delivery": {"method": 1}}),
    ("POST", "/ssf/streams", {"delivery": {"method": PUSH}}),
    ("POST", "/ssf/streams", {"delivery": {"method": PUSH, "endpoint_url": "ftp://a/b"}}),
    ("POST", "/ssf/streams", {"delivery": {"method": PUSH, "endpoint_url": "https://10.0.0.1/"}}),
    ("POST", "/ssf/streams", {"delivery": {"method": PUSH, "endpoint_url": f"{URL}#x"}}),
    (
        "POST",
        "/ssf/streams",
        {"delivery": {"method": PUSH, "endpoint_url": URL, "authorization_header": "a\r\nb: c"}},
    ),
    ("POST", "/ssf/streams", {"events_requested": "all"}),
    ("POST", "/ssf/streams", {"events_requested": [1]}),
    ("POST", "/ssf/streams", {"events_requested": [f"urn:{n}" for n in range(51)]}),
    ("POST", "/ssf/streams", {"description": ["x"]}),
    ("POST", "/ssf/streams", {"delivery": {"method": LEGACY_PUSH, "endpoint_url": URL}}),
    ("PATCH", "/ssf/streams", {}),
    ("PATCH", "/ssf/streams", {"stream_id": 1}),
    ("PUT", "/ssf/streams", {"delivery": {"method": POLL}}),
    ("DELETE", "/ssf/streams", None),
    ("GET", "/ssf/status", None),
    ("GET", "/ssf/status?stream_id=a&stream_id=b", None),
    ("POST", "/ssf/status", {"stream_id": _ID}),
    ("POST", "/ssf/status", {"stream_id": _ID, "status": "on"}),
    ("POST", "/ssf/status", {"stream_id": _ID, "status": ["paused"]}),
    ("POST", "/ssf/status", {"stream_id": _ID, "status": "paused", "reason": 1}),
    ("POST", "/ssf/subjects/add", {"stream_id": _ID}),
    ("POST", "/ssf/subjects/add", {"stream_id": _ID, "subject": "ada"}),
    ("POST", "/ssf/subjects/add", {"stream_id": _ID, "subject": {"email": "a@b"}}),
    ("POST", "/ssf/subjects/add", {"stream_id": _ID, "subject": {"format": "email"}}),
    ("POST", "/ssf/subjects/add", {"stream_id": _ID, "subject": {"format": "complex"}}),
    (
        "POST",
        "/ssf/subjects/add",
        {"stream_id": _ID, "subject": {"format": "complex", "user": "ada"}},
    ),
    (
        "POST",
        "/ssf/subjects/add",
        {"stream_id": _ID, "subject": {"format": "complex", "user": {"format": "complex"}}},
    ),
    ("POST", "/ssf/subjects/add", {"stream_id": _ID, "subject": _SUBJECT, "verified": "yes"}),
    ("POST", "/ssf/subjects/remove", {"subject": _SUBJECT}),
    ("POST", "/ssf/verification", {"state": "x"}),
    ("POST", "/ssf/verification", {"stream_id": _ID, "state": 1}),
    ("POST", "/ssf/verification", {"stream_id": _ID, "state": "x" * 1_001}),
    ("POST", f"/ssf/streams/{_ID}/poll", {"maxEvents": -1}),
    ("POST", f"/ssf/streams/{_ID}/poll", {"maxEvents": True}),
    ("POST", f"/ssf/streams/{_ID}/poll", {"maxEvents": 1.5}),
    ("POST", f"/ssf/streams/{_ID}/poll", {"returnImmediately": "yes"}),
    ("POST", f"/ssf/streams/{_ID}/poll", {"ack": "x"}),
    ("POST", f"/ssf/streams/{_ID}/poll", {"ack": [1]}),
    ("POST", f"/ssf/streams/{_ID}/poll", {"ack": ["x"] * (MOST_ACKNOWLEDGED + 1)}),
    ("POST", f"/ssf/streams/{_ID}/poll", {"setErrs": []}),
    ("POST", f"/ssf/streams/{_ID}/poll", {"setErrs": {"x": "bad"}}),
    ("POST", f"/ssf/streams/{_ID}/poll", {"setErrs": {"x": {}}}),
)


def test_malformed_requests_are_refused(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        client = await signal_client(it)
        for method, path, body in _MALFORMED:
            answer = await client.call(method, path, body)
            assert (answer.status, answer.json["error"]) == (400, "invalid_request"), (
                method,
                path,
                body,
                answer.body,
            )
        for wrong in ("%00", "%2e%2e", "x" * 600, "%ff"):
            for path in (f"/ssf/streams?stream_id={wrong}", f"/ssf/status?stream_id={wrong}"):
                assert (await client.call("GET", path)).status in {400, 404}
            answer = await client.call("POST", f"/ssf/streams/{wrong}/poll", {})
            assert answer.status in {400, 404}
        form = await it.post("/ssf/streams", {"a": "b"}, f"Bearer {client.token}")
        assert form.status == 415

    managing(story, tmp_path)


def test_paused_stream_queues_tokens_and_disabled_stream_drops_them(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        client = await signal_client(it)
        async with receiver_of(it) as receiver:
            stream_id = await client.push_to(receiver.url())

            async def become(status: str, **fields: str) -> None:
                body = {"stream_id": stream_id, "status": status, **fields}
                answer = await client.call("POST", "/ssf/status", body)
                assert (answer.status, answer.json) == (200, body)
                read = await client.call("GET", f"/ssf/status?stream_id={stream_id}")
                assert read.json == body

            await become("paused", reason="maintenance")
            await happen(it, UserDisabled(ADA), UserEnabled(ADA))
            waiting = await it.read(lambda tx: SignalQueue.of(tx).waiting_for(stream_id))
            assert (waiting, receiver.requests) == (2, 0)
            await become("enabled")
            await until(lambda: receiver.types() == ["account-disabled", "account-enabled"])
            await become("paused")
            await happen(it)
            await become("disabled")
            await happen(it)
            assert await it.read(lambda tx: SignalQueue.of(tx).waiting_for(stream_id)) == 0
            body = {"stream_id": stream_id}
            (await client.call("POST", "/ssf/verification", body)).refused(409, "conflict")
            await become("enabled")
            await happen(it, UserDisabled(ADA))
            await until(lambda: len(receiver.of()) == 3)
            assert receiver.types()[2] == "account-disabled"

    managing(story, tmp_path, database_url)


def test_verification_echoes_its_state_and_is_limited(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        client = await signal_client(it)
        async with receiver_of(it) as receiver:
            stream_id = await client.push_to(receiver.url(), f"{CAEP}session-revoked")
            body = {"stream_id": stream_id, "state": "VGhpcyBpcyBhbiBleGFtcGxl"}
            answer = await client.call("POST", "/ssf/verification", body)
            assert (answer.status, answer.body) == (204, b"")
            await until(lambda: len(receiver.of()) == 1)
            (claims,) = receiver.of()
            assert claims["sub_id"] == {"format": "opaque", "id": stream_id}
            assert claims["events"] == {f"{SSF}verification": {"state": body["state"]}}
            early = await client.call("POST", "/ssf/verification", body)
            early.refused(429, "slow_down")
            assert early.headers["retry-after"] == str(VERIFY_EVERY)
            it.clock.forward(VERIFY_EVERY)
            body = {"stream_id": stream_id}
            assert (await client.call("POST", "/ssf/verification", body)).status == 204
            await until(lambda: len(receiver.of()) == 2)
            assert receiver.of()[1]["events"] == {f"{SSF}verification": {}}

    managing(story, tmp_path)


@pytest.mark.parametrize(
    "subject",
    [
        {"format": "email", "email": "ADA@example.com"},
        {"format": "iss_sub", "iss": "http://localhost:8400", "sub": str(ADA)},
        {"format": "opaque", "id": str(ADA)},
        {"format": "complex", "user": {"format": "email", "email": "ada@example.com"}},
    ],
)
def test_no_events_are_sent_about_a_removed_subject_until_it_is_added(
    tmp_path: Path, subject: dict[str, object]
) -> None:
    async def story(it: Harness) -> None:
        client = await signal_client(it)
        stream_id = (await client.create())["stream_id"]
        body: dict[str, object] = {"stream_id": stream_id, "subject": subject}
        removed = await client.call("POST", "/ssf/subjects/remove", body)
        assert (removed.status, removed.body) == (204, b"")
        await happen(it)
        assert (await client.poll(stream_id))["sets"] == {}
        added = await client.call("POST", "/ssf/subjects/add", {**body, "verified": True})
        assert (added.status, added.body) == (200, b"")
        await happen(it)
        assert len((await client.poll(stream_id))["sets"]) == 1
        for nobody in (
            {"format": "email", "email": "nobody@example.com"},
            {"format": "phone_number", "phone_number": "+12065550123"},
            {"format": "iss_sub", "iss": "https://other.example", "sub": str(ADA)},
            {"format": "custom", "x": "1"},
            {"format": "opaque", "id": stream_id},
        ):
            body = {"stream_id": stream_id, "subject": dict(nobody)}
            assert (await client.call("POST", "/ssf/subjects/add", body)).status == 200
            assert (await client.call("POST", "/ssf/subjects/remove", body)).status == 204
        await happen(it)
        assert len((await client.poll(stream_id))["sets"]) == 2

    managing(story, tmp_path)


def test_streams_of_a_deleted_client_are_gone(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        client = await signal_client(it)
        await client.create()
        registrar = it.foundation.registrar("test")
        registered = it.clients["receiver"]
        await it.write(lambda tx: registrar.remove(tx, registered, it.clock.now, because="deleted"))
        while await it.write(lambda tx: delete_clients(tx, ("receiver",), it.clock.now)) > 1:
            pass
        assert await it.count("signal_streams") == 0
        assert (await client.call("GET", "/ssf/streams")).status == 401

    managing(story, tmp_path)
