"""Parse uploads strictly: `multipart/form-data` (RFC 7578) as browsers send it."""

import re
from typing import NoReturn
from urllib.parse import unquote

from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.web.form import Form, UploadedFile

PARTS = 20
"""Maximum number of parts."""

FIELD_BYTES = 8 * 1024
"""Maximum size of a part that is no file."""

_HEADER_BYTES = 2 * 1024
_LONGEST_NAME = 200
_TYPE = re.compile(
    r'multipart/form-data[ \t]*;[ \t]*boundary=(?P<quote>"?)(?P<boundary>[0-9A-Za-z\'()+_,./:=?-]'
    r"{1,70})(?P=quote)",
    re.IGNORECASE,
)
_PART = re.compile(
    r'content-disposition: *form-data; *name="(?P<name>[a-z][a-z_]{0,39})"'
    r'(?:; *filename="(?P<file>[^"]*)")?',
    re.IGNORECASE,
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def is_multipart(content_type: str) -> bool:
    """Return whether the header names a multipart form with a valid boundary."""
    return _TYPE.fullmatch(content_type.strip(" \t")) is not None


def read_multipart(content_type: str | None, body: bytes) -> Form:
    """Return the fields and files of a body whose size is bounded already.

    Raises Refused (invalid_request) for another structure, more than 20 parts, a repeated name, and
    fields of more than 8 KiB, with control characters, or in anything but UTF-8.
    """
    match = _TYPE.fullmatch((content_type or "").strip(" \t"))
    if match is None:
        _refuse("the body must be multipart/form-data", "upload.type")
    boundary = f"--{match['boundary']}".encode("ascii")
    # The boundary line of the first part has no line break before it.
    parts = (b"\r\n" + body).split(b"\r\n" + boundary, PARTS + 2)
    if len(parts) > PARTS + 2:
        _refuse(f"the upload has more than {PARTS} parts", "upload.too_many")
    if parts[0] or len(parts) < 2 or parts[-1] not in {b"--", b"--\r\n"}:  # noqa: PLR2004
        _refuse("the upload is incomplete", "upload.incomplete")
    fields: dict[str, str] = {}
    files: dict[str, UploadedFile] = {}
    for part in parts[1:-1]:
        head, blank, content = part.partition(b"\r\n\r\n")
        if not blank or not head.startswith(b"\r\n") or len(head) > _HEADER_BYTES:
            _refuse("a part of the upload is malformed", "upload.part")
        name, file = _described(head)
        if name in fields or name in files:
            _refuse(f"the parameter {name} was sent more than once", "form.duplicate")
        if file is None:
            fields[name] = _text(name, content)
        else:
            files[name] = UploadedFile(file, content)
    return Form(fields, files=files)


def _described(head: bytes) -> tuple[str, str | None]:
    try:
        lines = head.decode().split("\r\n")
    except UnicodeDecodeError:
        _refuse("the upload must be in UTF-8", "form.not_utf8")
    found = [match for line in lines if (match := _PART.fullmatch(line)) is not None]
    if len(found) != 1:
        _refuse("a part of the upload has no name", "form.nameless")
    file = found[0]["file"]
    return found[0]["name"], None if file is None else _plain_name(file)


def _plain_name(file: str) -> str:
    """Return the last part of the file's name, printable; browsers escape quotes and breaks."""
    last = unquote(file, errors="replace").replace("\\", "/").rpartition("/")[2]
    return "".join(each for each in last if each.isprintable())[:_LONGEST_NAME]


def _text(name: str, content: bytes) -> str:
    if len(content) > FIELD_BYTES:
        _refuse(f"the parameter {name} has more than 8 KiB", "form.too_large")
    try:
        text = content.decode()
    except UnicodeDecodeError:
        _refuse("the upload must be in UTF-8", "form.not_utf8")
    if _CONTROL.search(text):
        _refuse(f"the parameter {name} contains control characters", "form.control")
    return text


def _refuse(description: str, check: str) -> NoReturn:
    # `from None`: a UnicodeDecodeError contains the bytes that could not be decoded.
    raise Refused(Refusal(ErrorCode.INVALID_REQUEST, description, check)) from None
