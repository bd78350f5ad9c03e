"""Input of twice the size takes at most twice the work, for every repetition."""

from collections.abc import Callable, Mapping
from ipaddress import ip_network
from types import MappingProxyType, SimpleNamespace

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.work import Job, assert_linear, lines
from valetkey.authorization.imports.rules.files import (
    FileFault,
    FileFormat,
    attribute_column,
    read_file,
)
from valetkey.authorization.layout import language
from valetkey.authorization.protocol.claims import ClaimsRequest
from valetkey.authorization.protocol.register.self_registration import shape_of
from valetkey.kernel.jose import jwt
from valetkey.kernel.preconditions import preconditions
from valetkey.kernel.scope import Scope
from valetkey.kernel.secret import to_base64url
from valetkey.kernel.shapes import Invalid, JsonSchema
from valetkey.kernel.strict_json import read_object
from valetkey.kernel.url import check_redirect_uri, parse_url
from valetkey.resource.objects import notes
from valetkey.resource.requests import patches
from valetkey.resource.requests.representation import check_accept, read_preference
from valetkey.sdk.caller import read_bearer
from valetkey.web.body import read_form, read_json, read_multipart, read_query
from valetkey.web.client_address import Proxies
from valetkey.web.exchange import Headers, Request

_PROXIES = Proxies((ip_network("10.0.0.0/8"),))


def _sent(name: str, text: str) -> Headers:
    return Headers([(name.encode(), text.encode("latin-1", "replace"))])


# Each with the most characters that reach it.
READERS: Mapping[str, tuple[Callable[[str], object], int]] = MappingProxyType(
    {
        "strict JSON": (lambda text: read_object(text.encode()), 65_536),
        "JSON body": (lambda text: read_json(text.encode()), 65_536),
        "claims": (ClaimsRequest.parse, 65_536),
        "JWT": (lambda text: jwt.header_of(f"{to_base64url(text.encode())}.e30.AA"), 12_000),
        "form": (lambda text: read_form(text.encode()), 65_536),
        "query": (read_query, 65_536),
        "upload": (
            lambda text: read_multipart("multipart/form-data; boundary=x", text.encode()),
            65_536,
        ),
        "type of upload": (lambda text: read_multipart(text, b""), 65_536),
        "scope": (Scope.parse, 65_536),
        "URL": (parse_url, 65_536),
        "redirect URI": (lambda text: check_redirect_uri(text, native=True), 65_536),
        "If-Match": (lambda text: preconditions((text,), (text,)), 65_536),
        "Accept": (lambda text: check_accept(_sent("accept", text)), 65_536),
        "Prefer": (lambda text: read_preference(_sent("prefer", text)), 65_536),
        "Accept-Language": (language.accepted, 65_536),
        "ui_locales": (language.listed, 65_536),
        "Cookie": (
            lambda text: Request("GET", "/", headers=_sent("cookie", text)).cookie("a"),
            65_536,
        ),
        "X-Forwarded-For": (lambda text: _PROXIES.client("10.0.0.1", text), 65_536),
        "Authorization": (lambda text: read_bearer((text,)), 65_536),
        "name": (shape_of, 65_536),
        "CSV": (lambda text: _imported(FileFormat.CSV, text), 65_536),
        "JSON file": (lambda text: _imported(FileFormat.JSON, text), 65_536),
        "NDJSON file": (lambda text: _imported(FileFormat.NDJSON, text), 65_536),
    }
)
_OPENED = st.sampled_from(
    ("", '"', '[[[[[[[[["', '{"a":[[[[[[[[["', "https://a", "a=", "Bearer ", "--x\r\n", "[{", "en")
)
_UNITS = st.sampled_from(
    (
        *(" ", ",", ";", "/", "-", ".", ":", "%20", "+", "&", "a=b&", "a=1; ", '"', '\\"', "\\\\"),
        *("[", "]", "{", "}", "[]", "{}", '"a",', "1,", "a,", "a;", "en;q=0.1,", "*/*;q=0,"),
        *(
            '"a", ',
            'W/"a",',
            "\r\n",
            "\r\n--x",
            "é",
            "~1",
            "a.",
            "10.0.0.1,",
            '[{"a":',
            '{"a":1}\n',
        ),
    )
) | st.text(st.sampled_from('\\"[]{}:,;=&%/ .~-aé\r\n'), min_size=1, max_size=4)


def _imported(form: FileFormat, text: str) -> object:
    try:
        return sum(1 for _ in read_file(form, text.encode(), 100_000))
    except FileFault:
        return None


@pytest.mark.parametrize("name", READERS)
@example('[[[[[[[[["', '\\"', "")
@given(_OPENED, _UNITS, st.sampled_from(("", '"', "!", "\x00")))
@settings(max_examples=40, deadline=None)
def test_parser_work_grows_linearly_with_the_input(
    name: str, opened: str, unit: str, closed: str
) -> None:
    read, most = READERS[name]

    def job_of(size: int) -> Job:
        text = opened + unit * (size // len(unit)) + closed
        return lambda: read(text)

    assert_linear(job_of, 400, most)


def _schema(size: int) -> Job:
    shape = JsonSchema(
        {"type": "object", "properties": {f"a{number}": {} for number in range(size)}}
    )
    document = dict.fromkeys(shape.names, 1)
    return lambda: shape.validate(document)


def _columns(size: int) -> Job:
    heading = ",".join(attribute_column(f"a{number}") for number in range(size))
    return lambda: _imported(FileFormat.CSV, f"username,{heading}\nada\n")


@pytest.mark.parametrize("job_of", [_schema, _columns], ids=["fields", "columns"])
def test_work_grows_linearly_with_the_number_of_names(job_of: Callable[[int], Job]) -> None:
    assert_linear(job_of, 100, 4_800)


def _patch_of(kind: str, operations: int, size: int) -> tuple[patches.JsonPatch, dict[str, object]]:
    before: dict[str, object] = {"title": "x", "text": "y" * size}
    entries: dict[str, dict[str, object]] = {
        "replace": {"op": "replace", "path": "/title", "value": "z" * 100},
        "test": {"op": "test", "path": "/title", "value": "x"},
        "add": {"op": "add", "path": "/title", "value": "z" * 100},
        "copy": {"op": "copy", "from": "/title", "path": "/title"},
    }
    return patches.read_json_patch([entries[kind]] * operations), before


@pytest.mark.parametrize("kind", ["replace", "test", "add", "copy"])
def test_operations_of_a_patch_do_not_each_read_the_whole_document(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = 0

    def encode(value: object) -> bytes:
        nonlocal read
        written = msgspec.json.encode(value)
        read += len(written)
        return written

    counted = SimpleNamespace(json=SimpleNamespace(encode=encode, decode=msgspec.json.decode))
    monkeypatch.setattr(patches, "msgspec", counted)
    patch, before = _patch_of(kind, 100, 1_048_000)
    _tried(lambda: patch.applied(notes.OBJECT, before))
    assert read < 4 * 1_048_576
    few, many = (_patch_of(kind, number, 10) for number in (50, 100))
    assert lines(lambda: many[0].applied(notes.OBJECT, many[1])) <= 300 + 2 * lines(
        lambda: few[0].applied(notes.OBJECT, few[1])
    )


def _tried(job: Job) -> None:
    # The document is larger than a note may be.
    with pytest.raises(Invalid):
        job()
