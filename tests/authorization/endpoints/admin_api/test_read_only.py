"""Records that are sent back as they were read, with the members that the server sets."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.authorization.endpoints.admin_api.programs import Reply, caller
from tests.support.harness import ADA, Harness, run

_MADE: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("/users", {"username": "bo", "name": "Bo", "email": "bo@example.com"}, "uid"),
    ("/clients", {"name": "App", "redirect_uris": ["https://app.example/cb"]}, "client_id"),
    ("/groups", {"name": "staff"}, "name"),
    ("/apis", {"identifier": "https://api.example", "name": "API", "scopes": {}}, "api_id"),
)


def _record(reply: Reply) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.json.decode(reply.body)
    record: dict[str, Any] = document.get("record", document)
    return record


@pytest.mark.parametrize(("path", "body", "named"), _MADE)
def test_unchanged_record_is_accepted_and_changed_server_fields_refused(
    tmp_path: Path, path: str, body: dict[str, Any], named: str
) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        made = await owner.call("POST", path, body)
        assert made.status == 201, made.body
        one = f"{path}/{_record(made)[named]}"
        read = await owner.call("GET", one)
        record, etag = _record(read), read.headers["etag"]
        same = await owner.call("PATCH", one, record, headers={"if-match": etag})
        assert same.status == 200, same.body
        read = await owner.call("GET", one)
        assert _record(read) == record
        moved = {**record, "created_at": record["created_at"] + 1}
        refused = await owner.call("PATCH", one, moved, headers={"if-match": read.headers["etag"]})
        assert refused.status == 400
        error = {"pointer": "/created_at", "detail": "the server sets this field"}
        assert refused.json["errors"] == [error]

    run(tmp_path, story)


def test_server_set_fields_in_an_update_require_read_permission(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        etag = (await owner.call("GET", f"/users/{ADA}")).headers["etag"]
        writer = await caller(it, permissions=("people",))
        body = {"uid": ADA, "nickname": "A"}
        answer = await writer.call("PATCH", f"/users/{ADA}", body, headers={"if-match": etag})
        assert answer.status == 403

    run(tmp_path, story)
