"""HX: HTTP itself, the Host header, proxies, the headers of every answer, TLS."""

import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import requests

from tests.attacks.raw import HARDENED, Reply, only, request, say
from tests.cli.running import PROGRAM, clean_environment
from tests.sdk.certificate import self_signed
from tests.support.live import Answer, LiveServers, basic, secret_of
from tests.support.wait import CEILING
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.config.settings import AuthorizationSettings, LimitSettings, Settings
from valetkey.testing.server import Servers

_METADATA = "/.well-known/oauth-authorization-server"
_ASKED = f"grant_type=client_credentials&client_id=svc1&client_secret={secret_of('svc1')}".encode()


def _get(url: str, target: str = _METADATA, *headers: str, host: str | None = None) -> Reply:
    return only(say(url, request(url, "GET", target, headers=headers, host=host)))


def _unmoved(world: LiveServers) -> None:
    """What the server says about itself is what its operator said."""
    metadata = _get(world.auth).json
    assert metadata["issuer"] == world.auth
    urls = [value for name, value in metadata.items() if name.endswith(("_endpoint", "_uri"))]
    assert all(url.startswith(f"{world.auth}/") for url in urls)


def test_hx_00_the_same_request_made_correctly_is_answered(world: LiveServers) -> None:
    assert _get(world.auth).status == 200
    _unmoved(world)
    assert _get(world.auth, host=urlsplit(world.auth).netloc.upper()).status == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.test", "127.0.0.1", "127.0.0.1:1", "127.0.0.1:443", "localhost:{port}",
        "{host}.evil.test", "evil.test@{host}", "{host}@evil.test", "{host}, evil.test",
        "{host}/evil", "a/b?c", "{host}#", "[::1]:{port}", "2130706433:{port}", "127.1:{port}",
        "127.0.0.1:0{port}", "127.0.0.1.:{port}", "%31%32%37.0.0.1:{port}", " ", "*",
    ],
)  # fmt: skip
def test_hx_01_requests_for_other_hosts_are_refused(world: LiveServers, host: str) -> None:
    for url in (world.auth, world.api):
        own = urlsplit(url).netloc
        sent = host.format(host=own, port=own.partition(":")[2])
        for target in (_METADATA, "/oauth/authorize?client_id=web1", "/v2/notes"):
            reply = _get(url, target, host=sent)
            assert reply.status in {400, 421}
            body = reply.body
            if url == world.auth and target.startswith("/oauth/authorize"):
                # The page for users names the requested host once, as text of its own element.
                body = body.replace(f"<bdi>{sent}</bdi>".encode(), b"", 1)
            assert b"evil" not in body
            assert "evil" not in str(reply.headers)
    _unmoved(world)


def test_hx_01_repeated_or_missing_host_and_absolute_target_are_refused(world: LiveServers) -> None:
    own = urlsplit(world.auth).netloc
    with world.nothing_changes():
        for headers in ((f"Host: {own}",), ("Host: evil.test",), ("host: evil.test",)):
            assert _get(world.auth, _METADATA, *headers).status == 400
        missing = f"GET {_METADATA} HTTP/1.1\r\n\r\n".encode()
        empty = f"GET {_METADATA} HTTP/1.1\r\nHost:\r\n\r\n".encode()
        for sent, statuses in ((missing, {400}), (empty, {400, 421})):
            assert only(say(world.auth, sent)).status in statuses
        for target in (f"http://evil.test{_METADATA}", f"http://{own}{_METADATA}", "http://"):
            assert _get(world.auth, target).status == 400
        old = f"GET {_METADATA} HTTP/1.0\r\n\r\n".encode()
        assert only(say(world.auth, old)).status in {400, 421}


@pytest.mark.parametrize(
    "header",
    [
        "X-Forwarded-Host: evil.test", "Forwarded: host=evil.test;proto=https", "X-Host: evil.test",
        "X-Forwarded-Server: evil.test", "X-Original-URL: /oauth/jwks",
        "X-Rewrite-URL: /oauth/jwks", "X-Forwarded-Prefix: /evil",
        "X-Forwarded-Proto: https", "X-Forwarded-Port: 1", "X-Http-Host-Override: evil.test",
    ],
)  # fmt: skip
def test_hx_02_forwarded_headers_do_not_change_urls(world: LiveServers, header: str) -> None:
    plain, answer = _get(world.auth), _get(world.auth, _METADATA, header)
    assert answer.json == plain.json
    entry = "/oauth/authorize?response_type=code&client_id=web1"
    reply = only(say(world.auth, request(world.auth, "GET", entry, headers=[header])))
    assert reply.status == 303
    assert urlsplit(reply.headers["location"]).netloc in {"", urlsplit(world.auth).netloc}
    assert "evil" not in str(reply)
    assert "secure" not in reply.headers.get("set-cookie", "").lower()


@dataclass(frozen=True)
class _Behind:
    """A server that trusts whoever connects from loopback to be its proxy."""

    servers: Servers

    def wrong_secret(self, *forwarded: str) -> Reply:
        header = basic("svc1", "x" * 40)["Authorization"]
        headers = [f"Authorization: {header}", *forwarded]
        url = self.servers.auth_url
        return only(say(url, request(url, headers=headers, body=b"grant_type=client_credentials")))


@pytest.fixture
def behind(tmp_path: Path) -> Iterator[_Behind]:
    settings = Settings(
        authorization=AuthorizationSettings(trusted_proxies=(ip_network("127.0.0.0/8"),)),
        limits=LimitSettings(client_failures=5),
    )
    with Servers(tmp_path, settings=settings, with_resource=False) as servers:
        metadata = ClientMetadata(name="S", grant_types=("client_credentials",))
        servers.register_client(metadata, "svc1", secret_of("svc1"))
        with servers.clock.stopped():
            yield _Behind(servers)


def test_hx_03_unreadable_client_addresses_share_one_limit(behind: _Behind) -> None:
    for n in range(8):
        header = f"X-Forwarded-For: 198.51.{n}.7"
        assert behind.wrong_secret(header).status == 401
    bad = (
        "a", "127.0.0.1", ", ".join(["192.0.2.1"] * 1_000), "fe80::1%eth0", "", "::1",
        "192.0.2.1:80", "192.0.2.300", "unknown", "1" * 500,
    )  # fmt: skip
    statuses = [behind.wrong_secret(f"X-Forwarded-For: {value}").status for value in bad]
    assert statuses[:5] == [401] * 5
    assert set(statuses[6:]) == {429}
    assert behind.wrong_secret().status == 429
    # The right-most hop is the one that our proxy wrote.
    hops = "X-Forwarded-For: 127.0.0.1, 203.0.113.1, 198.51.0.7"
    assert [behind.wrong_secret(hops).status for _ in range(6)][-1] == 429
    assert behind.wrong_secret("X-Forwarded-For: 203.0.113.1").status == 401


def test_hx_04_x_forwarded_for_is_ignored_without_a_trusted_proxy(tmp_path: Path) -> None:
    settings = Settings(limits=LimitSettings(client_failures=5))
    with Servers(tmp_path, settings=settings, with_resource=False) as servers:
        metadata = ClientMetadata(name="S", grant_types=("client_credentials",))
        servers.register_client(metadata, "svc1", secret_of("svc1"))
        alone = _Behind(servers)
        with servers.clock.stopped():
            hops = [f"X-Forwarded-For: 198.51.{n}.7" for n in range(8)]
            statuses = [alone.wrong_secret(hop).status for hop in hops]
    assert (statuses[0], statuses[-1]) == (401, 429)


@pytest.mark.parametrize(
    "target",
    [
        "//evil.test/..", "//evil.test" + _METADATA, "/../" + _METADATA, "/./" + _METADATA,
        "/%2e%2e" + _METADATA, _METADATA + "/", _METADATA + "/.", _METADATA + "%00",
        "/%2ewell-known/oauth-authorization-server", "/.well-known%2foauth-authorization-server",
        _METADATA.upper(), _METADATA + ";x=1", "/x/.." + _METADATA,
    ],
)  # fmt: skip
def test_hx_05_paths_are_not_normalized(world: LiveServers, target: str) -> None:
    for url in (world.auth, world.api):
        reply = _get(url, target)
        assert reply.status == 404
        assert "location" not in reply.headers
        assert b"evil" not in reply.body


@pytest.mark.parametrize(
    "target",
    [
        "*", "http://x/", "https://x/", "\\", "/\\evil.test", "/a b", "", "x", ".", "?x", "#",
        "/#", "/a#b", "/\x7f", "/\xe9", "/\x00", "/a\tb", "x:443", "/<script>", '/"', "/{x}",
        "/|", "/^", "/`",
    ],
)  # fmt: skip
def test_hx_05_request_target_must_be_a_path(world: LiveServers, target: str) -> None:
    for url in (world.auth, world.api):
        for method in ("GET", "OPTIONS", "CONNECT"):
            reply = only(say(url, request(url, method, target), ends=False))
            assert reply.status == 400
            assert b"<script" not in reply.body


@pytest.mark.parametrize(
    "pair",
    [
        ("X-Forwarded-For: 192.0.2.1", "X-Forwarded-For: 192.0.2.2"),
        ("X-Forwarded-For: 192.0.2.1", "x-forwarded-for: 192.0.2.1"),
        ("X-Forwarded-Proto: https", "X-Forwarded-Proto: http"),
        ("X-Forwarded-Host: a", "X-Forwarded-Host: b"),
        ("Forwarded: for=192.0.2.1", "Forwarded: for=192.0.2.2"),
        ("Authorization: Bearer a", "Authorization: Bearer b"),
    ],
)
def test_hx_07_repeated_headers_are_refused(world: LiveServers, pair: tuple[str, str]) -> None:
    for url in (world.auth, world.api):
        assert _get(url, "/health/live", pair[0]).status == 200
        assert _get(url, "/health/live", *pair).status == 400


@pytest.mark.parametrize(
    "sent",
    [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\x04\0\0\0\0\0" * 100,
        b"GET / HTTP/2.0\r\nHost: x\r\n\r\n",
        b"GET / HTTP/0.9\r\n\r\n",
        b"GET /\r\n\r\n",
        b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03" + b"\0" * 200,
        b"SSH-2.0-x\r\n\r\n",
        b"\r\n" * 5 + b"x",
    ],
    ids=range(7),
)
def test_hx_09_other_http_versions_are_refused(world: LiveServers, sent: bytes) -> None:
    for url in (world.auth, world.api):
        assert [reply.status for reply in say(url, sent + b"\r\n\r\n", ends=False)] == [400]
        assert _get(url, "/health/live").status == 200


@pytest.mark.parametrize("protocol", ["h2c", "websocket", "TLS/1.2", "x"])
def test_hx_10_connection_is_never_upgraded(world: LiveServers, protocol: str) -> None:
    headers = ["Connection: Upgrade, HTTP2-Settings", f"Upgrade: {protocol}", "HTTP2-Settings: AAM"]
    reply = only(say(world.auth, request(world.auth, "GET", _METADATA, headers=headers)))
    assert reply.status in {200, 400}
    sent = request(world.auth, headers=headers[:2], body=_ASKED)
    assert only(say(world.auth, sent, ends=False)).status in {200, 400}


def test_hx_11_every_kind_of_response_has_security_headers(world: LiveServers) -> None:
    url, api = world.auth, world.api
    kinds: dict[int, list[Reply]] = {
        200: [_get(url), _get(url, "/"), _get(url, "/errors/"), _get(api, "/health/live")],
        303: [_get(url, "/oauth/authorize?response_type=code&client_id=web1")],
        400: [
            _get(url, "/oauth/authorize"),
            only(say(url, b"x\r\n\r\n", ends=False)),
            only(say(url, request(url, body=b"a=%zz"))),
        ],
        401: [_get(api, "/v2/notes"), only(say(url, request(url, body=_ASKED[:-1])))],
        404: [_get(url, "/none"), _get(api, "/none"), _get(url, "/errors/none")],
        405: [_get(url, "/oauth/token"), only(say(api, request(api, "PURGE", "/v2/notes")))],
        413: [only(say(url, request(url, body=b"a" * 65_537)))],
        414: [_get(url, "/?" + "a" * 8_200)],
        415: [only(say(url, request(url, headers=["Content-Encoding: br"], body=_ASKED)))],
        421: [_get(url, host="evil.test"), _get(api, host="evil.test")],
        431: [_get(url, _METADATA, *["X: 1"] * 101), _get(api, "/", "X: " + "a" * 40_000)],
    }
    for status, replies in kinds.items():
        assert [reply.status for reply in replies] == [status] * len(replies)
        for reply in replies:
            assert not {"server", "x-powered-by"} & set(reply.headers)
            policy = reply.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert reply.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("octets", ["%0d%0aset-cookie:%20a=b", "%0a", "%0d", "%E5%98%8A%E5%98%8D"])
def test_hx_12_line_breaks_in_input_cannot_add_headers(world: LiveServers, octets: str) -> None:
    own = "/oauth/authorize?response_type=code&client_id=web1&state=x"
    for target in (f"{own}{octets}", f"/errors/{octets}", f"/oauth/sign-in?{octets}={octets}"):
        reply = _get(world.auth, target)
        assert "a=b" not in reply.headers.get("set-cookie", "")
        assert set(reply.headers) >= set(HARDENED)


@pytest.mark.parametrize(
    "header",
    [
        "Accept-Language: " + "en;q=0.1," * 3_000,
        "Range: bytes=" + ",".join(f"{n}-" for n in range(4_000)),
        "Cookie: " + "; ".join(f"a{n}=b" for n in range(3_500)),
        "Accept: " + "text/html;q=0.1," * 1_900,
        "If-None-Match: " + '"a",' * 7_000,
        "Accept-Encoding: " + "gzip;q=1," * 3_000,
        "X: " + " " * 30_000,
    ],
    ids=lambda header: header[:12],
)
def test_hx_13_overlong_headers_are_cheap_to_handle(world: LiveServers, header: str) -> None:
    target = "/oauth/authorize?response_type=code&client_id=web1"

    def cost(*headers: str) -> float:
        # Processor time, which a busy machine does not lengthen; the servers run in this process.
        best = 1.0
        for _ in range(15):
            began = time.process_time()
            reply = _get(world.auth, target, *headers)
            best = min(best, time.process_time() - began)
            assert reply.status == 303
        return best

    assert cost(header) - cost() < 0.02
    assert _get(world.auth, target, header + "a" * 65_536).status == 431


def test_hx_14_range_header_is_ignored(world: LiveServers) -> None:
    whole = _get(world.auth, "/oauth/jwks")
    for value in ("bytes=0-0", "bytes=0-0,1-1", "bytes=-1", "bytes=9-1", "x"):
        part = _get(world.auth, "/oauth/jwks", f"Range: {value}")
        assert (part.status, part.body) == (200, whole.body)


@dataclass(frozen=True)
class _Secured:
    """The real program with TLS of its own."""

    url: str
    certificate: Path

    def context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.certificate))

    def get(self, target: str, context: ssl.SSLContext | None = None) -> Reply:
        sent = request(self.url, "GET", target, headers=["Connection: close"])
        return only(say(self.url, sent, tls=context or self.context()))


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Secured]:
    here = tmp_path_factory.mktemp("secured")
    certificate, key = self_signed(here)
    with closing(socket.create_server(("127.0.0.1", 0))) as sock:
        address = f"127.0.0.1:{sock.getsockname()[1]}"
    (here / "valetkey.toml").write_text(
        f'[authorization]\nurl = "https://{address}"\nlisten = "{address}"\n'
        f'tls_certificate = "{certificate}"\ntls_key = "{key}"\n[log]\nlevel = "error"\n'
    )
    with subprocess.Popen(
        [str(PROGRAM), "serve", "authorization", "--config", str(here / "valetkey.toml")],
        cwd=here,
        env=clean_environment(),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("ready ")
        yield _Secured(f"https://{address}", certificate)
        process.terminate()


def test_hx_15_tls_1_2_and_1_3_are_served_with_hsts(secured: _Secured) -> None:
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context = secured.context()
        context.minimum_version = context.maximum_version = version
        reply = secured.get(_METADATA, context)
        assert reply.json["issuer"] == secured.url
        assert reply.headers["strict-transport-security"] == "max-age=63072000"
    for target, status in (("/none", 404), ("/oauth/token", 405), ("/?" + "a" * 9_000, 414)):
        reply = secured.get(target)
        assert reply.status == status
        assert "strict-transport-security" in reply.headers


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
def test_hx_15_tls_before_1_2_is_refused(secured: _Secured, version: ssl.TLSVersion) -> None:
    context = secured.context()
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = version
    with pytest.raises(ssl.SSLError):
        secured.get(_METADATA, context)


_WEAK = "ECDHE+AES:!AESGCM:!AESCCM RSA ECDHE-ECDSA-AES128-SHA aNULL:eNULL:@SECLEVEL=0 DHE"


@pytest.mark.parametrize("ciphers", _WEAK.split(" "))
def test_hx_15_weak_cipher_suites_are_refused(secured: _Secured, ciphers: str) -> None:
    context = secured.context()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(ciphers)
    with pytest.raises(ssl.SSLError):
        secured.get(_METADATA, context)


def test_hx_15_plain_http_on_the_tls_port_gets_no_response(secured: _Secured) -> None:
    assert say(secured.url, request(secured.url, body=_ASKED), ends=False) == []


def test_hx_16_cookies_have_host_prefix_secure_and_httponly(secured: _Secured) -> None:
    url = f"{secured.url}/oauth/sign-in"
    session = requests.get(url, verify=str(secured.certificate), timeout=CEILING)
    Answer(session)
    cookies = [cookie.split("; ") for cookie in session.raw.headers.getlist("set-cookie")]
    assert cookies
    assert all(name.startswith("__Host-") for name, *_ in cookies)
    assert all({"Secure", "HttpOnly", "Path=/"} <= set(words) for words in cookies)
