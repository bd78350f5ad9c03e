"""Uploads: what browsers send, and everything that is refused."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.web.body import read_multipart

KIND = "multipart/form-data; boundary=----WebKitFormBoundary7MA4YWxkTrZu0gW"
LINE = b"------WebKitFormBoundary7MA4YWxkTrZu0gW"


def part(name: str, content: bytes, file: str | None = None) -> bytes:
    header = f'Content-Disposition: form-data; name="{name}"'
    if file is not None:
        header += f'; filename="{file}"\r\nContent-Type: text/csv'
    return LINE + b"\r\n" + header.encode() + b"\r\n\r\n" + content + b"\r\n"


def upload(*parts: bytes) -> bytes:
    return b"".join(parts) + LINE + b"--\r\n"


def refused(body: bytes, kind: str | None = KIND) -> str:
    with pytest.raises(Refused) as caught:
        read_multipart(kind, body)
    assert caught.value.refusal.code is ErrorCode.INVALID_REQUEST
    return caught.value.refusal.check


def test_fields_and_files_are_read_as_a_browser_sends_them() -> None:
    body = upload(part("csrf", b"token"), part("file", b"a,b\r\n\r\n--\x00\xff", "C:\\x\\p%22.csv"))
    form = read_multipart(KIND, body)
    assert form.get("csrf") == "token"
    assert form.get("file") is None
    file = form.file("file")
    assert file is not None
    assert (file.name, file.content) == ('p".csv', b"a,b\r\n\r\n--\x00\xff")
    assert "a,b" not in repr(file)
    quoted = KIND.replace("boundary=", 'boundary="') + '"'
    assert read_multipart(quoted, body).get("csrf") == "token"


def test_file_field_without_a_file_is_none() -> None:
    assert read_multipart(KIND, upload(part("file", b"", ""))).file("file") is None
    assert read_multipart(KIND, upload()).file("file") is None


@pytest.mark.parametrize(
    ("body", "check"),
    [
        (b"", "upload.incomplete"),
        (b"csrf=token", "upload.incomplete"),
        (part("csrf", b"token"), "upload.incomplete"),
        (b"preamble\r\n" + upload(part("csrf", b"token")), "upload.incomplete"),
        (upload(part("csrf", b"token")) + b"epilogue", "upload.incomplete"),
        (upload(part("csrf", b"a"), part("csrf", b"b")), "form.duplicate"),
        (upload(part("csrf", b"a"), part("csrf", b"b", "file")), "form.duplicate"),
        (upload(part("", b"a")), "form.nameless"),
        (upload(LINE + b"\r\n\r\nx\r\n"), "upload.part"),
        (upload(LINE + b"\r\nX: y\r\n\r\nx\r\n"), "form.nameless"),
        (upload(LINE + b"junk\r\n\r\nx\r\n"), "upload.part"),
        (upload(LINE + b"\r\nno end of the header\r\n"), "upload.part"),
        (upload(part("csrf", b"\xff")), "form.not_utf8"),
        (upload(part("csrf", b"a\0b")), "form.control"),
        (upload(part("csrf", b"a" * 8_193)), "form.too_large"),
        (upload(*(part(f"x{'y' * n}", b"") for n in range(21))), "upload.too_many"),
    ],
)
def test_malformed_multipart_body_is_refused(body: bytes, check: str) -> None:
    assert refused(body) == check


@pytest.mark.parametrize(
    "kind", [None, "", "multipart/form-data", "multipart/form-data; boundary=", "text/plain"]
)
def test_content_type_other_than_multipart_is_refused(kind: str | None) -> None:
    assert refused(upload(part("csrf", b"token")), kind) == "upload.type"


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(noise: bytes) -> None:
    for body in (noise, upload(noise), LINE + noise + LINE + b"--"):
        with suppress(Refused):
            read_multipart(KIND, body)
