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


def test_the_id_stays_until_another_comes() -> None:
    assert _events(b"id: 1\ndata: a\n\ndata: b\n\nid\ndata: c\n\n") == [
        Event("1", b"a"),
        Event("1", b"b"),
        Event("", b"c"),
    ]


def test_a_comment_is_a_sign_of_life() -> None:
    assert _events(b": alive\nid: 2\n\n")[0] == Event("2", b"")


def test_odd_fields_do_no_harm() -> None:
    assert _events(b"\xff\xfe: x\nid: a\0b\nid: \xff\nretry: 5\n:\n\n")[0] == Event("\ufffd", b"")
