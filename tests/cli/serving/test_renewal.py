"""Certificates by ACME: when they are renewed, and how a server answers the authority's challenge.

Renewal at an authority, Pebble, is an experiment of `make reliability`.
"""

import socket
import ssl
from pathlib import Path

import pytest
from cryptography import x509

from bench.ports import free_port
from tests.cli.running import valetkey
from tests.reliability.credentials import Authority
from tests.reliability.nodes import Node, configure, register, stopped_in_the_end
from tests.support.wait import CEILING, wait_until
from valetkey.cli.serving.acme import is_due
from valetkey.config.load import load
from valetkey.fetch.certificate import is_renewal_due, self_signed
from valetkey.kernel.moment import Instant
from valetkey.kernel.runtime import SYSTEM

_KEY_AUTHORIZATION = x509.ObjectIdentifier("1.3.6.1.5.5.7.1.31")


def _shown(port: int, protocols: list[str], *, split: int) -> tuple[str | None, bytes]:
    """The agreed protocol and the certificate, for a ClientHello that arrives in two parts."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(protocols)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with socket.create_connection(("127.0.0.1", port), timeout=CEILING) as raw:
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            try:
                tls.do_handshake()
            except ssl.SSLWantReadError:
                flight = outgoing.read()
                raw.sendall(flight[:split])
                raw.sendall(flight[split:])
                incoming.write(raw.recv(65_536))
            else:
                break
        certificate = tls.getpeercert(binary_form=True)
        assert certificate is not None
        return tls.selected_alpn_protocol(), certificate


def test_challenge_certificate_is_served_only_for_the_acme_tls_protocol(tmp_path: Path) -> None:
    port = free_port()
    node = Node(tmp_path / "node")
    configure(
        node.here,
        url=f"https://localhost:{port}",
        listen=f"127.0.0.1:{port}",
        database="sqlite:///a/auth.db",
        more='[tls]\nacme = "https://127.0.0.1:9/directory"\n',
    )
    register(node.here)
    folder = node.here / "acme"
    challenge = folder / "authorization.challenge"
    with stopped_in_the_end(node):
        node.start()
        # Until there is a certificate, one that the server signed itself.
        protocol, first = _shown(port, ["http/1.1"], split=9)
        assert protocol == "http/1.1"
        challenge.write_text(self_signed("localhost", SYSTEM.now(), days=1, challenge="t.p"))
        for split in (3, 60, 9_999):
            protocol, shown = _shown(port, ["acme-tls/1"], split=split)
            assert protocol == "acme-tls/1"
            extensions = x509.load_der_x509_certificate(shown).extensions
            assert extensions.get_extension_for_oid(_KEY_AUTHORIZATION).critical
            assert _shown(port, ["http/1.1"], split=split) == ("http/1.1", first)
        challenge.write_text("half a fi")
        assert _shown(port, ["http/1.1"], split=60)[1] == first
        challenge.unlink()
        assert _shown(port, ["acme-tls/1", "http/1.1"], split=60) == ("http/1.1", first)
        # The authority does not answer: the server goes on, says so, and tries again later.
        wait_until(lambda: "certificate.not_issued" in (node.here / "log").read_text())
        ran = valetkey("doctor", "--json", here=node.here)
    about = {
        finding["about"]: finding for finding in ran.json["findings"] if finding["level"] != "ok"
    }
    assert "did not issue" in about["authorization certificate by ACME"]["found"]
    assert {path.stat().st_mode & 0o077 for path in (folder, *folder.iterdir())} == {0}
    settings = load(node.here / "valetkey.toml", {})
    last = int((folder / "authorization.failed").read_text().split()[1])
    due = [is_due(settings, settings.authorization, Instant(last + wait)) for wait in (299, 300)]
    assert due == [False, True]


def test_renewal_is_due_for_the_last_third_and_for_another_name() -> None:
    pem = Authority(0).issue("localhost", 7)
    begins = int(x509.load_pem_x509_certificate(pem).not_valid_before_utc.timestamp())
    ends = int(x509.load_pem_x509_certificate(pem).not_valid_after_utc.timestamp())
    third = (ends - begins) // 3
    due = [is_renewal_due(pem, "localhost", Instant(ends - third - before)) for before in (1, 0)]
    assert due == [False, True]
    assert is_renewal_due(pem, "auth.example", Instant(begins))
    placeholder = self_signed("localhost", Instant(begins), days=7).encode()
    assert is_renewal_due(placeholder, "localhost", Instant(begins))
    assert is_renewal_due(b"no certificate", "localhost", Instant(begins))


@pytest.mark.parametrize(
    ("more", "wrong"),
    [
        ('[tls]\nacme = "http://ca.example/directory"\n', "tls.acme"),
        ('[tls]\nacme = "https://ca.example/directory"\nacme_ca_file = "none"\n', "acme_ca_file"),
    ],
)
def test_serve_refuses_invalid_acme_settings(tmp_path: Path, more: str, wrong: str) -> None:
    (tmp_path / "valetkey.toml").write_text(more)
    ran = valetkey("serve", here=tmp_path)
    assert ran.code == 2
    assert wrong in ran.err
