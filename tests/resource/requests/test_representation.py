"""What may come in and what may go out."""

import asyncio
from pathlib import Path

import pytest

from tests.resource.api import api
from valetkey.kernel.refusal import Refused
from valetkey.resource.requests.representation import check_accept, read_document
from valetkey.web.exchange import Headers


@pytest.mark.parametrize(
    "accept",
    [
        "*/*",
        "application/json",
        "Application/JSON; charset=utf-8",
        "text/html, application/*;q=0.2",
        "text/html,*/*;q=0.1",
        "",
        "application/xml;q=0, */*",
    ],
)
def test_accept_header_that_allows_json_is_accepted(accept: str) -> None:
    check_accept(Headers([(b"accept", accept.encode())]))


@pytest.mark.parametrize(
    "accept",
    ["application/xml", "text/*", "application/json;q=0", "*/*, application/json;q=0.0", "json"],
)
def test_accept_header_that_excludes_json_is_refused(accept: str) -> None:
    with pytest.raises(Refused, match="excludes"):
        check_accept(Headers([(b"accept", accept.encode())]))


def test_several_accept_fields_are_one_list() -> None:
    check_accept(Headers([(b"accept", b"text/html"), (b"accept", b"application/json")]))
    check_accept(Headers())


@pytest.mark.parametrize(
    "kind",
    [
        "",
        "text/plain",
        "application/json; charset=latin-1",
        "application/x-www-form-urlencoded",
        "application/jsonx",
        "application/json, application/json",
        "multipart/form-data",
    ],
)
def test_another_content_type_is_refused(kind: str) -> None:
    with pytest.raises(Refused, match="unsupported_media_type"):
        read_document(Headers([(b"content-type", kind.encode())]), b"{}")


def test_merge_patch_type_is_accepted_for_patches_only() -> None:
    headers = Headers([(b"content-type", b"application/merge-patch+json; charset=UTF-8")])
    assert read_document(headers, b'{"a":null}', patch=True) == {"a": None}
    with pytest.raises(Refused, match="unsupported_media_type"):
        read_document(headers, b"{}")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b'"x"',
        b"{",
        b'{"a":1,"a":2}',
        b'{"a":NaN}',
        b'{"a":1e999}',
        b'{"a":9007199254740993}',
        b'{"a":"\\ud800"}',
        b'{"a":"\\u0000"}',
        b'{"a":"\xff"}',
        b"\xef\xbb\xbf{}",
        b'{"a":' * 5_000,
        b"[" * 100_000,
    ],
)
def test_malformed_or_ambiguous_json_is_refused(body: bytes) -> None:
    with pytest.raises(Refused, match="invalid_request"):
        read_document(Headers([(b"content-type", b"application/json")]), body)


def test_unknown_patch_type_gets_415_with_accept_patch(tmp_path: Path) -> None:
    async def story() -> None:
        async with api(tmp_path) as call:
            answer = await call(
                "PATCH", "/v2/notes/x", [], content_type="application/xml-patch+xml"
            )
            assert answer.status == 415
            assert answer.headers["accept-patch"].startswith("application/merge-patch+json,")

    asyncio.run(story())
