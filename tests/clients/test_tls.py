"""The same over real TLS, from `valetkey serve` with a certificate of its own: nothing relaxed."""

import datetime as dt
import re
import ssl
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import quote

import pytest
from authlib.common.security import generate_token
from authlib.integrations.requests_client import OAuth2Session as AuthlibSession
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from oauthlib.oauth2 import InsecureTransportError
from requests_oauthlib import OAuth2Session

from tests.cli.running import PROGRAM, Running, clean_environment, valetkey
from tests.clients.node.library import SCOPE, Library, Script
from tests.clients.site import UID, WEB, Site, secret_of
from tests.support.live import CALLBACK, PASSWORD

# The stubs that pyright brings along do not know that Authlib's session is one of requests.
# pyright: reportGeneralTypeIssues=false, reportAttributeAccessIssue=false

SECRET = secret_of(WEB)
CONFIGURATION = """
[authorization]
url = "https://127.0.0.1:0"
listen = "127.0.0.1:0"
tls_certificate = "certificate.pem"
tls_key = "key.pem"

[resource]
url = "https://127.0.0.1:0"
listen = "127.0.0.1:0"
tls_certificate = "certificate.pem"
tls_key = "key.pem"
"""
REGISTER = f"""
[[users]]
uid = {UID}
username = "ada"
email = "ada@example.com"
name = "Ada Lovelace"
password = "{PASSWORD}"

[[clients]]
client_id = "{WEB}"
client_secret = "{SECRET}"
name = "Notes Printer"
redirect_uris = ["{CALLBACK}"]
grant_types = ["authorization_code", "refresh_token", "client_credentials"]
scopes = ["account:read", "notes:read"]
"""
_READY = re.compile(r"ready authorization=(https://\S+) resource=(https://\S+)\n")


@dataclass
class Secure(Site):
    """Servers in processes of their own, and what to trust them by."""

    certificate: str = ""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    """A folder, a certificate, `valetkey apply`, `valetkey serve`."""
    here = tmp_path_factory.mktemp("tls")
    certify(here)
    (here / "valetkey.toml").write_text(CONFIGURATION, encoding="utf-8")
    (here / "register.toml").write_text(REGISTER, encoding="utf-8")
    applied = valetkey("apply", "register.toml", "--yes", here=here)
    assert applied.code == 0, applied.out + applied.err
    certificate = str(here / "certificate.pem")
    with (
        (here / "log").open("w", encoding="utf-8") as log,
        Running(
            [str(PROGRAM), "serve"],
            cwd=here,
            env=clean_environment(),
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as process,
    ):
        try:
            assert process.stdout is not None
            match = _READY.fullmatch(process.stdout.readline())
            assert match is not None, (here / "log").read_text(encoding="utf-8")
            tls = ssl.create_default_context(cafile=certificate)
            yield Secure(match[1], match[2], tls, certificate)
        finally:
            process.terminate()
            process.wait(60)


@pytest.fixture(autouse=True)
def _trusted(site: Secure, monkeypatch: pytest.MonkeyPatch) -> None:
    # What the environment says wins over `session.verify` in requests.
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", site.certificate)


def certify(here: Path) -> None:
    """A certificate for loopback that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "loopback")])
    start = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(start)
        .not_valid_after(start + dt.timedelta(days=36_500))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    (here / "certificate.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (here / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )


def test_requests_oauthlib_flow_succeeds_without_insecure_transport(
    site: Secure, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OAUTHLIB_INSECURE_TRANSPORT", raising=False)
    with OAuth2Session(WEB, redirect_uri=CALLBACK, scope=SCOPE.split(), pkce="S256") as session:
        arrived = site.arrive(session.authorization_url(site.authorize)[0])
        token = session.fetch_token(
            site.token, authorization_response=arrived, client_secret=SECRET
        )
        assert (token["token_type"], token["uid"]) == ("bearer", UID)
        account = session.get(f"{site.api}/account")
        assert account.json()["name"] == "Ada Lovelace"
        assert "max-age=" in account.headers["strict-transport-security"]
        refreshed = session.refresh_token(site.token, client_id=WEB, client_secret=SECRET)
        assert refreshed["access_token"] != token["access_token"]
        with pytest.raises(InsecureTransportError):
            session.get(f"{site.api}/account".replace("https://", "http://"))


def test_authlib_flow_succeeds(site: Secure) -> None:
    verifier = generate_token(48)
    with AuthlibSession(
        WEB,
        SECRET,
        redirect_uri=CALLBACK,
        scope=SCOPE,
        token_endpoint=site.token,
        code_challenge_method="S256",
    ) as session:
        url, _ = session.create_authorization_url(site.authorize, code_verifier=verifier)
        arrived = site.arrive(url)
        token = session.fetch_token(authorization_response=arrived, code_verifier=verifier)
        assert (token["token_type"], token["uid"]) == ("bearer", UID)
        assert session.get(f"{site.api}/account").json()["name"] == "Ada Lovelace"
        assert session.revoke_token(site.revoke).status_code == 200


@pytest.mark.parametrize("name", ["openid_client.mjs", "oauth4webapi.mjs"])
def test_node_flow_succeeds(site: Secure, node: str, name: str) -> None:
    with Script(node, name, {"NODE_EXTRA_CA_CERTS": site.certificate}) as script:
        library = Library(script, site).of(WEB, "basic", secret=SECRET)
        token = library.sign_in()
        assert (token["token_type"], token["uid"]) == ("bearer", UID)
        account = library.step("read", token=token["access_token"], url=f"{site.api}/account")
        assert account["name"] == "Ada Lovelace"
        assert library.step("introspect", token=token["access_token"])["active"] is True


def test_curl_flow_succeeds_over_verified_tls_only(site: Secure, curl: str) -> None:
    secret = quote(SECRET, safe="")
    query = f"grant_type=client_credentials&client_id={WEB}&client_secret={secret}"
    url = f"{site.issuer}/token?{query}"
    post = [curl, "--silent", "--fail", "--max-time", "20", "--request", "POST"]
    result = subprocess.run(
        [*post, "--cacert", site.certificate, url], capture_output=True, check=True
    )
    assert b'"token_type":"bearer"' in result.stdout
    # Without the certificate curl says no, and over plain HTTP nobody answers.
    assert subprocess.run([*post, url], capture_output=True, check=False).returncode == 60
    plain = url.replace("https://", "http://")
    assert subprocess.run([*post, plain], capture_output=True, check=False).returncode != 0
