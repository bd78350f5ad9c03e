"""Server-sent events, line by line."""

import asyncio
from collections.abc import AsyncGenerator

from valetkey.sdk.upstream.revocations import Event, read_events


async def _lines(text: bytes) -> AsyncGenerator[bytes]:
    for line in text.split(b"\n")[:-1]:
        yield line


def _events(text: bytes) -> list[Event]:
    async def story() -> list[Event]:
        return [event async for event in read_events(_lines(text))]

    return asyncio.run(story())


def test_an_event_ends_with_an_empty_line() -> None:
    assert _events(b"event: x\nid: 7\ndata: a\n\ndata: unfinished") == [Event("7", b"a")]


def test_data_may_have_several_lines_and_no_space() -> None:
    assert _events(b"data: a\ndata:b\ndata:  c\n\n") == [Event("", b"a\nb\n c")]


def test_event_id_is_kept_until_the_next_id() -> None:
    assert _events(b"id: 1\ndata: a\n\ndata: b\n\nid\ndata: c\n\n") == [
        Event("1", b"a"),
        Event("1", b"b"),
        Event("", b"c"),
    ]


def test_comment_line_is_skipped() -> None:
    assert _events(b": alive\nid: 2\n\n")[0] == Event("2", b"")


def test_unknown_or_malformed_fields_raise_no_error() -> None:
    assert _events(b"\xff\xfe: x\nid: a\0b\nid: \xff\nretry: 5\n:\n\n")[0] == Event("\ufffd", b"")
