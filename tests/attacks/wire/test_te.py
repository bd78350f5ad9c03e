"""TE: what reaches the token endpoint, and its siblings for clients."""

import gzip
import json
from base64 import urlsafe_b64decode
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import requests

from tests.attacks.raw import FORM, Reply, only, request, say
from tests.support.live import PASSWORD, Answer, LiveServers, live_servers, secret_of
from tests.support.wait import CEILING

_ENDPOINTS = ("/oauth/token", "/token", "/oauth/introspect", "/oauth/revoke")
_PROVEN = f"client_id=svc1&client_secret={secret_of('svc1')}"
_ASKED = f"grant_type=client_credentials&{_PROVEN}"
_TYPE = {"content-type": FORM}
_MULTIPART = '--x\r\nContent-Disposition: form-data; name="grant_type"\r\n\r\nmagic\r\n--x--\r\n'


def _ask(world: LiveServers, form: str | bytes, **headers: str) -> Answer:
    return world.post("/oauth/token", form, headers={**_TYPE, **headers})


def _raw(
    world: LiveServers, *headers: str, body: bytes = _ASKED.encode(), ends: bool = True
) -> Reply:
    return only(say(world.auth, request(world.auth, headers=headers, body=body), ends=ends))


def test_te_00_the_same_request_made_correctly_is_answered(world: LiveServers) -> None:
    _ask(world, _ASKED).ok()
    assert _raw(world).status == 200
    world.post("/token", _ASKED, headers=_TYPE).ok()


@pytest.mark.parametrize("path", _ENDPOINTS)
@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "PATCH", "TRACE"])
def test_te_01_other_methods_are_refused(world: LiveServers, path: str, method: str) -> None:
    with world.nothing_changes():
        response = requests.request(
            method, f"{world.auth}{path}", data=_ASKED, headers=_TYPE, timeout=CEILING
        )
        answer = Answer(response)
        assert answer.status == 405
        assert response.headers["allow"] == "POST"
        if method != "HEAD":
            answer.refused(405, "method_not_allowed")


@pytest.mark.parametrize("method", ["post", "Post", "POST_", "PO\tST", "GETPOST", ""])
def test_te_01_misspelled_methods_are_refused(world: LiveServers, method: str) -> None:
    with world.nothing_changes():
        sent = request(world.auth, method, body=_ASKED.encode())
        assert only(say(world.auth, sent)).status in {400, 405}


def test_te_01_a_method_cannot_be_overridden(world: LiveServers) -> None:
    override = {"X-HTTP-Method-Override": "POST", "X-Method-Override": "POST"}
    response = requests.get(
        f"{world.auth}/token?_method=POST&{_ASKED}", headers=override, timeout=CEILING
    )
    Answer(response).refused(405, "method_not_allowed")


@pytest.mark.parametrize(
    "name", ["grant_type", "client_id", "client_secret", "code", "scope", "refresh_token", "zzz"]
)
def test_te_02_repeated_parameters_are_refused(world: LiveServers, name: str) -> None:
    with world.nothing_changes():
        for pair in (
            f"{name}=a&{name}=b",
            f"{name}=a&{name}=a",
            f"{name}=a&%{ord(name[0]):x}" + name[1:],
        ):
            others = "&".join(
                parameter for parameter in _ASKED.split("&") if not parameter.startswith(f"{name}=")
            )
            _ask(world, f"{others}&{pair}").refused(400, "invalid_request")


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json", "multipart/form-data; boundary=x", "multipart/form-data", "text/plain",
        "application/x-www-form-urlencoded; charset=utf-16",
        "application/x-www-form-urlencoded; charset=iso-8859-1",
        "application/x-www-form-urlencoded, application/json", "application/x-www-form-urlencodedx",
        "x", "",
    ],
)  # fmt: skip
def test_te_03_other_content_types_are_refused(world: LiveServers, content_type: str) -> None:
    with world.nothing_changes():
        for body in (_ASKED, json.dumps({"grant_type": "client_credentials"}), _MULTIPART):
            answer = world.post("/oauth/token", body, headers={"content-type": content_type})
            answer.refused(400, "invalid_request")


def test_te_03_a_body_without_or_with_two_content_types_is_refused(world: LiveServers) -> None:
    body, length = _ASKED.encode(), f"Content-Length: {len(_ASKED)}"
    start = f"POST /oauth/token HTTP/1.1\r\nHost: {urlsplit(world.auth).netloc}\r\n{length}\r\n"
    for types in ("", f"Content-Type: {FORM}\r\nContent-Type: application/json\r\n"):
        reply = only(say(world.auth, f"{start}{types}\r\n".encode() + body))
        assert (reply.status, reply.json["error"]) == (400, "invalid_request")


def test_te_03_form_content_type_may_have_charset_utf_8(world: LiveServers) -> None:
    for written in (f"{FORM}; charset=UTF-8", f'{FORM};charset="utf-8"', FORM.upper()):
        world.post("/oauth/token", _ASKED, headers={"content-type": written}).ok()


def test_te_04_a_form_has_at_most_100_fields_and_64_kib(world: LiveServers) -> None:
    fields = "".join(f"&x{n}=1" for n in range(97))
    _ask(world, _ASKED + fields).ok()
    _ask(world, f"{_ASKED}{fields}&one_more=1").refused(400, "invalid_request")
    filled = _ASKED + "&x=" + "a" * (65_536 - len(_ASKED) - 3)
    _ask(world, filled).ok()
    _ask(world, filled + "a").refused(413, "content_too_large")
    _ask(world, "a" * 1_000_000).refused(413, "content_too_large")


_NO_GRANT_TYPE = (
    "", "magic", "CLIENT_CREDENTIALS", "client_credentials%0A", "client_credentials%00",
    "client_credentials+", "%63lient_credentials%20password", "implicit", "' OR 1=1 --",
    "urn:ietf:params:oauth:grant-type:saml2-bearer", "a" * 10_000,
)  # fmt: skip

_JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"


def test_te_05_unknown_or_unregistered_grant_types_are_refused(world: LiveServers) -> None:
    with world.nothing_changes():
        for name in _NO_GRANT_TYPE:
            _ask(world, f"{_PROVEN}&grant_type={name}").refused(400, "unsupported_grant_type")
        for name in ("password", "authorization_code", "refresh_token", _JWT_BEARER):
            _ask(world, f"{_PROVEN}&grant_type={name}").refused(400, "unauthorized_client")


def test_te_05_a_grant_type_must_be_named(world: LiveServers) -> None:
    for form in (_PROVEN, "", "grant_type", "GRANT_TYPE=client_credentials"):
        _ask(world, form).refused(400, "unsupported_grant_type")


def test_te_06_unknown_parameters_are_ignored(world: LiveServers) -> None:
    more = "&audience=x&client_assertionx=y&is_admin=true&__proto__=1&username=alice&uid=1001"
    answer = _ask(world, _ASKED + more)
    answer.ok()
    assert answer.json["scope"] == "client:read client:write"
    assert "uid" not in answer.json


@pytest.mark.parametrize(
    "length",
    ["-1", "+5", "0x10", "5 5", "5,5", "1e2", "\u00b2", "", "9" * 30, "18446744073709551616"],
)
def test_te_07_invalid_content_length_ends_the_connection(world: LiveServers, length: str) -> None:
    with world.nothing_changes():
        reply = _raw(world, f"Content-Length: {length}", ends=False)
        assert reply.status in {400, 413}
        assert reply.headers["connection"] == "close"


@pytest.mark.parametrize(
    "framing",
    [
        ("Content-Length: {}", "Content-Length: 5"), ("Content-Length: 5", "Content-Length: {}"),
        ("Content-Length: {}", "Content-Length: {}"), ("Content-Length: {0}, {0}",),
        ("Content-Length : {}",), ("Content-Length:\x0b{}",),
        ("Content-Length: {}", "Transfer-Encoding: chunked"),
        ("Transfer-Encoding: chunked", "Content-Length: {}"),
        ("Transfer-Encoding: chunked", "Transfer-Encoding: identity"),
        ("Transfer-Encoding: chunked, identity",), ("Transfer-Encoding: identity, chunked",),
        ("Transfer-Encoding: xchunked",), ("Transfer-Encoding:\x0bchunked",),
        ("Transfer-Encoding : chunked",), ("Transfer-Encoding: gzip, chunked",),
        ("X: y\nContent-Length: {}",),
    ],
)  # fmt: skip
def test_te_08_ambiguous_framing_is_refused(world: LiveServers, framing: tuple[str, ...]) -> None:
    body = _ASKED.encode()
    hidden = request(world.auth, "GET", "/oauth/jwks")
    headers = [line.format(len(body)) for line in framing]
    with world.nothing_changes():
        reply = only(
            say(world.auth, request(world.auth, headers=headers, body=body) + hidden, ends=False)
        )
        assert reply.status == 400
        assert reply.headers["connection"] == "close"


@pytest.mark.parametrize("chunk", ["-5\r\n", "0x5\r\n", "5 5\r\n", "g\r\n", "f" * 20, "5\n"])
def test_te_08_broken_chunks_are_refused(world: LiveServers, chunk: str) -> None:
    body = chunk.encode() + b"hello\r\n0\r\n\r\n"
    framed = ("Transfer-Encoding: chunked", f"Content-Type: {FORM}")
    assert _raw(world, *framed, body=body, ends=False).status in {400, 413}


def test_te_08_valid_chunks_are_read(world: LiveServers) -> None:
    body = _ASKED.encode()
    whole = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
    reply = _raw(world, "Transfer-Encoding: chunked", f"Content-Type: {FORM}", body=whole)
    assert reply.status == 200


_NOT_TEXT = (
    b"%00", b"%01", b"%0d%0a", b"%7f", b"%c2%80", b"%ff", b"%fe", b"%c0%80", b"%c0%ae",
    b"%ed%a0%80", b"%f4%90%80%80", b"%f8%88%80%80%80", b"%e2%82", b"\x80", b"\xc3\xa9", b"\x00",
    b"\r\n", b"%", b"%4", b"%zz", b"%u0041", b"%%41",
)  # fmt: skip


def test_te_09_invalid_utf_8_and_nul_are_refused_on_both_databases(
    database_url: str, tmp_path: Path
) -> None:
    with live_servers(tmp_path, database_url, resource=False) as world:
        _ask(world, f"{_ASKED}&x=%C3%A9").ok()
        with world.nothing_changes():
            for octets in _NOT_TEXT:
                form = _ASKED.encode()
                for spoilt in (form + b"&x=" + octets, form + b"&" + octets + b"=x"):
                    _ask(world, spoilt).refused(400, "invalid_request")
                client = form.replace(b"=svc1&", b"=svc1" + octets + b"&", 1)
                _ask(world, client).refused(400, "invalid_request")
        # What may be anything is judged by what it is compared with.
        for spelt in ("%00", "%01", "%0d%0a", "%c2%80"):
            for typed in (f"username=alice&password={spelt}", f"username=a{spelt}&password=x"):
                secret = f"client_id=old1&client_secret={secret_of('old1')}"
                answer = _ask(world, f"grant_type=password&{secret}&{typed}")
                assert answer.status in {400, 429}
                assert answer.json["error"] in {"invalid_grant", "invalid_request", "slow_down"}
        for value in ("\U0001f511" * 50, "\u0130\u0131\u212a", "\ufeff", "\ufffd", "\u202e"):
            answer = world.token(value, grant_type="client_credentials")
            assert answer.status in {400, 401}


def test_te_10_a_plus_and_percent_twenty_are_one_space(world: LiveServers) -> None:
    for scope in ("client:read+client:write", "client:read%20client:write", "client%3aread"):
        _ask(world, f"{_ASKED}&scope={scope}").ok()
    for scope in ("client:read%2Bclient:write", "client:read%2520client:write", "a" * 9_000):
        _ask(world, f"{_ASKED}&scope={scope}").refused(400, "invalid_scope")


def test_te_11_an_ampersand_separates_and_nothing_else(world: LiveServers) -> None:
    _ask(world, f"&&{_ASKED}&&").ok()
    _ask(world, f"{_ASKED}&a==b&c").ok()
    with world.nothing_changes():
        for separator in (";", "%26", ","):
            answer = _ask(world, _ASKED.replace("&", separator))
            answer.refused(400, "unsupported_grant_type")
        without = "grant_type=client_credentials&client_id=svc1&client_secret"
        _ask(world, without).refused(401, "invalid_client")
        _ask(world, f"{without}=").refused(401, "invalid_client")
        _ask(world, f"{_ASKED}&=x").refused(400, "invalid_request")
        _ask(world, f"{_ASKED}&=").refused(400, "invalid_request")


def test_te_12_parameter_names_are_matched_exactly(world: LiveServers) -> None:
    for wrong in ("Client_secret", "client_secret[]", "client_secret[0]", " client_secret"):
        form = _ASKED.replace("client_secret", wrong).replace(" ", "+")
        _ask(world, form).refused(401, "invalid_client")


def test_te_13_look_alike_username_is_the_same_user_or_invalid_grant(world: LiveServers) -> None:
    def sign_in(username: str, password: str = PASSWORD) -> Answer:
        return world.token("old1", grant_type="password", username=username, password=password)

    control = sign_in("alice")
    control.ok()
    twins = ("\uff41lice", "al\u0131ce", "a\u200blice", "\u202ealice", "alice\u0301", "\u00aalice")
    for username in twins:
        answer = sign_in(username)
        if answer.status == 200:
            assert answer.json["uid"] == control.json["uid"], ascii(username)
        else:
            answer.refused(400, "invalid_grant")
    sign_in("alice", PASSWORD + "\u0301").refused(400, "invalid_grant")


def test_te_14_expect_100_continue_is_supported(world: LiveServers) -> None:
    assert _raw(world, "Expect: 100-continue").status == 200
    assert _raw(world, "Expect: the-unexpected").status in {200, 400, 417}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([f"X-{n}: 1" for n in range(100)], 431), (["X: " + "a" * 65_536], 431),
        (["X" * 65_536 + ": a"], 431), (["Cookie: " + "a=b; " * 10_000], 431),
        (["X: a\r\n folded: b"], 400), (["X: a\r\n\tfolded"], 400), (["X: a\x00b"], 400),
        (["X: a\x01b"], 400), (["X\x00: a"], 400), (["X Y: a"], 400), ([": a"], 400),
        (["no colon"], 400), (["X: a\nY: b"], 400), (["X: a\rY: b"], 400),
    ],
    ids=range(14),
)  # fmt: skip
def test_te_15_too_many_large_or_malformed_headers_are_refused(
    world: LiveServers, headers: list[str], status: int
) -> None:
    with world.nothing_changes():
        assert _raw(world, *headers, ends=False).status == status


def test_te_16_request_values_are_never_echoed(world: LiveServers) -> None:
    mark = "<script>alert(7)</script>"
    for name in ("grant_type", "client_id", "scope", "x" + mark, mark):
        form = {"grant_type": "client_credentials", name: mark + "\u00e9"}
        answer = world.post("/oauth/token", form)
        assert answer.status in {400, 401}
        assert "alert" not in answer.response.text
        assert "alert" not in str(answer.response.headers)


@pytest.mark.parametrize("accept", ["*/*", "text/html", "application/xml", "", "x" * 1_000])
def test_te_17_response_is_json_for_any_accept_header(world: LiveServers, accept: str) -> None:
    for form, status in ((_ASKED, 200), (_PROVEN, 400)):
        answer = _ask(world, form, accept=accept)
        assert answer.status == status
        assert answer.response.headers["content-type"] == "application/json"
    absent = request(world.auth, body=_ASKED.encode())
    assert only(say(world.auth, absent)).headers["content-type"] == "application/json"


def test_te_18_cors_does_not_allow_another_origin(world: LiveServers) -> None:
    answer = _ask(world, _ASKED, origin="https://evil.test")
    assert answer.response.headers.get("access-control-allow-origin") != "https://evil.test"
    assert "access-control-allow-credentials" not in answer.response.headers


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd", "x", "identity, gzip"])
def test_te_19_bodies_with_a_content_encoding_are_refused(world: LiveServers, coding: str) -> None:
    bomb = gzip.compress(b"a" * 10_000_000)
    assert len(bomb) < 65_536
    with world.nothing_changes():
        for body in (bomb, gzip.compress(_ASKED.encode()), _ASKED.encode()):
            answer = world.post("/oauth/token", body, headers={**_TYPE, "content-encoding": coding})
            answer.refused(415, "unsupported_media_type")


def test_te_20_bytes_after_the_content_length_are_a_second_request(world: LiveServers) -> None:
    body = _ASKED.encode() + request(world.auth, "GET", "/oauth/jwks")
    replies = say(
        world.auth, request(world.auth, headers=[f"Content-Length: {len(_ASKED)}"], body=body)
    )
    assert [reply.status for reply in replies] == [200, 200]
    # As a body of the length it has, it is one broken form.
    assert _raw(world, body=body).status == 400


def test_te_21_pipelined_requests_are_answered_in_order(world: LiveServers) -> None:
    names = ("pipe1", "pipe2", "pipe3")
    for name in names:
        world.client(name, grant_types=("client_credentials",))
    forms = [b"grant_type=client_credentials&client_id=%ff"]
    for n in range(99):
        name = names[n % 3]
        secret = secret_of(name) if n % 5 else "x" * 40
        forms.append(
            f"grant_type=client_credentials&client_id={name}&client_secret={secret}".encode()
        )
    replies = say(world.auth, b"".join(request(world.auth, body=form) for form in forms))
    assert len(replies) == 100
    assert replies[0].status == 400
    for n, reply in enumerate(replies[1:]):
        assert reply.is_hardened()
        if reply.status == 200:
            claims = reply.json["access_token"].split(".")[1]
            payload = json.loads(urlsafe_b64decode(claims + "=="))
            assert payload["client_id"] == names[n % 3]
            assert n % 5
        else:
            assert reply.status == (401 if not n % 5 else 429)


def test_te_21_malformed_request_ends_the_connection(world: LiveServers) -> None:
    sound = request(world.auth, body=_ASKED.encode())
    for broken in (b"POST\r\n\r\n", b"\x16\x03\x01\x02\x00", b"POST /oauth/token HTTP/9.9\r\n\r\n"):
        assert only(say(world.auth, broken + sound * 99, ends=False)).status == 400
        replies = say(world.auth, sound + broken + sound * 9, ends=False)
        assert [reply.status for reply in replies] == [200, 400]


def test_te_22_http_1_0_is_answered_and_its_connection_closed(world: LiveServers) -> None:
    old = request(world.auth, body=_ASKED.encode(), headers=["Connection: keep-alive"])
    reply = only(say(world.auth, old.replace(b"HTTP/1.1", b"HTTP/1.0"), ends=False))
    assert (reply.status, reply.headers["connection"]) == (200, "close")


@pytest.mark.parametrize(
    "target",
    [
        "/oauth/token/", "//oauth/token", "/oauth//token", "/oauth/%74oken",
        "/oauth/../oauth/token", "/./oauth/token", "/OAUTH/TOKEN", "/oauth/Token", "/oauth/token;x",
        "/oauth/token%00", "/oauth/token%20", "/oauth/token%2f", "/oauth%2ftoken",
        "/oauth/token/..", "/oauth/token.json", "/token/", "/x/token", "/v1/oauth/token",
    ],
)  # fmt: skip
def test_te_23_variants_of_the_token_path_are_not_found(world: LiveServers, target: str) -> None:
    with world.nothing_changes():
        sent = request(world.auth, target=target, body=_ASKED.encode())
        reply = only(say(world.auth, sent))
        assert (reply.status, reply.json["error"]) == (404, "not_found")
