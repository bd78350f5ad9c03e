"""Answers as they are written on the wire."""

from uvicorn.server import ServerState

from valetkey.web.connection.exchange import ResponseFormatter


def wording() -> tuple[ResponseFormatter, ServerState]:
    state = ServerState()
    state.default_headers = [(b"date", b"now")]
    return ResponseFormatter(state), state


def test_answer_has_its_content_length() -> None:
    words, _ = wording()
    top = b"HTTP/1.1 200 OK\r\na: b\r\n"
    expected = top + b"date: now\r\ncontent-length: 1\r\n"
    assert words.whole(top, 1, b"c", last=False) == expected + b"\r\nc"
    assert words.whole(top, 1, b"c", last=True) == expected + b"connection: close\r\n\r\nc"


def test_answer_without_a_length_has_no_content_length() -> None:
    words, _ = wording()
    top = b"HTTP/1.1 304 Not Modified\r\n"
    assert words.whole(top, None, b"", last=False) == top + b"date: now\r\n\r\n"
    closed = top + b"date: now\r\nconnection: close\r\n\r\n"
    assert words.whole(top, None, b"", last=True) == closed


def test_chunked_answer_has_transfer_encoding() -> None:
    words, _ = wording()
    top = b"HTTP/1.1 200 OK\r\n"
    chunked = b"transfer-encoding: chunked\r\n"
    expected = top + chunked + b"date: now\r\n\r\n"
    assert words.start(top, chunked=True, last=False) == expected
    assert chunked not in words.start(top, chunked=False, last=True)


def test_date_header_follows_the_server_state() -> None:
    words, state = wording()
    assert b"date: now\r\n" in words.whole(b"", 0, b"", last=False)
    state.default_headers = [(b"date", b"later")]
    assert b"date: later\r\n" in words.whole(b"", 0, b"", last=False)
