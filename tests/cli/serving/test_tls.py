"""`valetkey serve` off plain http: TLS of its own, and what it refuses without (S28)."""

import datetime as dt
import ipaddress
import ssl
import urllib.request
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.cli.running import valetkey
from tests.cli.site import configure_ports, serving
from tests.support.wait import wait_until


def certify(here: Path, days: float = 3) -> None:
    """A certificate for 127.0.0.1 in `here`, good from two days ago for so many more."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    today = dt.datetime.now(dt.UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(today - dt.timedelta(days=2))
        .not_valid_after(today + dt.timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (here / "c.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (here / "k.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )


def test_both_servers_speak_tls_and_trust_each_other(tmp_path: Path) -> None:
    certify(tmp_path)
    (tmp_path / "k.pem").chmod(0o644)
    file = configure_ports(tmp_path)
    text = file.read_text(encoding="utf-8").replace("http://", "https://")
    files = 'tls_certificate = "c.pem"\ntls_key = "k.pem"\n'
    text = text.replace("[authorization]\n", f"[authorization]\n{files}")
    file.write_text(text.replace("[resource]\n", f"[resource]\n{files}"), encoding="utf-8")
    with serving(tmp_path) as site:
        context = ssl.create_default_context(cafile=tmp_path / "c.pem")
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        for url in (site.authorization, site.resource):
            with urllib.request.urlopen(f"{url}/health/ready", context=context) as answer:
                assert answer.status == 200
                assert answer.headers["Strict-Transport-Security"]
        ran = valetkey("doctor", "--json", here=tmp_path)
        assert ran.code == 0, ran.out
        soon = {finding["about"]: finding["level"] for finding in ran.json["findings"]}
        assert soon["authorization certificate"] == "warning"
        sentences = {finding["found"] for finding in ran.json["findings"]}
        assert any("no authority known on this machine" in sentence for sentence in sentences)
        assert soon["resource key"] == "warning"
        # The resource server met the other one's certificate when it asked for keys.
        assert '"path":"/oauth/jwks","status":200' in site.log.read_text(encoding="utf-8")
        _renew(tmp_path, site.authorization.rpartition(":")[2])
        certify(tmp_path, days=-1)
        wait_until(lambda: "certificate has expired" in _doctor_on_certificates(tmp_path))


def _doctor_on_certificates(here: Path) -> set[str]:
    ran = valetkey("doctor", "--json", here=here)
    findings = ran.json["findings"]
    return {
        finding["found"]
        for finding in findings
        if finding["about"] == "authorization certificate" and finding["level"] == "error"
    }


def _renew(here: Path, port: str) -> None:
    """A new pair is shown within seconds, and one that does not fit is not."""
    address = ("127.0.0.1", int(port))
    before = ssl.get_server_certificate(address)
    key = (here / "k.pem").read_bytes()
    certify(here)
    after = (here / "c.pem").read_text()
    wait_until(lambda: ssl.get_server_certificate(address) == after)
    assert after != before
    (here / "k.pem").write_bytes(key)
    wait_until(lambda: "certificate.refused" in (here / "serve.log").read_text())
    assert ssl.get_server_certificate(address) == after


@pytest.mark.parametrize(
    "text",
    [
        '[authorization]\nlisten = "0.0.0.0:8400"\n',
        '[authorization]\nurl = "http://auth.example"\n',
        '[resource]\nlisten = "[::]:8401"\nurl = "https://api.example"\n',
        '[authorization]\nurl = "https://127.0.0.1:1"\ntls_certificate = "c"\ntls_key = "k"\n',
    ],
)
def test_serve_refuses_settings_that_send_secrets_without_tls(tmp_path: Path, text: str) -> None:
    (tmp_path / "valetkey.toml").write_text(text, encoding="utf-8")
    ran = valetkey("serve", here=tmp_path)
    assert ran.code == 2
    assert ran.out == ""
    assert ran.err.startswith("error: ")
    assert not (tmp_path / "valetkey").exists()


def test_unreadable_certificate_is_reported_by_serve_and_doctor(tmp_path: Path) -> None:
    for name in ("c.pem", "k.pem"):
        (tmp_path / name).write_text("not PEM", encoding="ascii")
    file = configure_ports(tmp_path)
    text = file.read_text(encoding="utf-8").replace("http://", "https://", 1)
    files = 'tls_certificate = "c.pem"\ntls_key = "k.pem"\n'
    file.write_text(text.replace("[authorization]\n", f"[authorization]\n{files}"), "utf-8")
    ran = valetkey("serve", here=tmp_path)
    assert ran.code == 2
    assert "authorization.tls_certificate" in ran.err
    assert "NO_CERTIFICATE" not in ran.err
    examined = valetkey("doctor", here=tmp_path)
    assert examined.code == 1
    assert "error    authorization certificate: The certificate" in examined.out
    assert "cannot be read" in examined.out
    assert "Traceback" not in examined.err
