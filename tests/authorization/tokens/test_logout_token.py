"""A logout token is signed, encrypted and named as the client's ID tokens are, and so is a hint."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_network
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs, urlencode

import pytest
import requests
from joserfc import jwe, jws, jwt
from joserfc.jwk import KeySet, OctKey, RSAKey

from tests.support.wait import CEILING
from valetkey.authorization.model.client import OpenIdRegistration
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.config.sections.serving import FetchSettings
from valetkey.config.settings import Settings, TokenSettings
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.testing.browser import UserAgent
from valetkey.testing.server import Servers

PASSWORD = "correct horse battery staple"
SECRET = "w" * 40
CALLBACK = "https://app.example/cb"
BACK = "https://app.example/bye"
SECONDS = CEILING
_ENCRYPTION = ["RSA-OAEP-256", "A128CBC-HS256", "A128GCM", "A256GCM"]
_KEY = RSAKey.generate_key(2_048, {"use": "enc", "kid": "e1"})


@dataclass
class Ear:
    """An app's back channel: it keeps what it hears."""

    heard: list[str] = field(default_factory=list[str])
    url: str = ""


@pytest.fixture
def ear() -> Iterator[Ear]:
    channel = Ear()

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            channel.heard += parse_qs(body)["logout_token"]
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    channel.url = f"http://127.0.0.1:{server.server_port}/logout"
    Thread(target=server.serve_forever, daemon=True).start()
    yield channel
    server.shutdown()
    server.server_close()


def _read(servers: Servers, token: str) -> tuple[dict[str, object], dict[str, object]]:
    """Header and claims, by another library."""
    if token.count(".") == 4:
        opened = jwe.decrypt_compact(token, _KEY, algorithms=_ENCRYPTION)
        assert opened.protected["cty"] == "JWT"
        assert opened.plaintext is not None
        token = opened.plaintext.decode()
    header: dict[str, object] = dict(jws.extract_compact(token.encode()).headers())
    if header["alg"] == "HS256":
        return header, jwt.decode(token, OctKey.import_key(SECRET), ["HS256"]).claims
    document = requests.get(f"{servers.auth_url}/oauth/jwks", timeout=SECONDS).json()
    keys = KeySet.import_key_set(document)
    return header, jwt.decode(token, keys, [str(header["alg"])]).claims


@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "encrypted"])
@pytest.mark.parametrize("subject_type", ["public", "pairwise"])
@pytest.mark.parametrize("algorithm", ["ES256", "RS256", "HS256"])
def test_logout_token_is_signed_and_encrypted_like_the_id_token(
    tmp_path: Path, ear: Ear, algorithm: str, subject_type: str, encrypted: bool
) -> None:
    settings = Settings(
        tokens=TokenSettings(signing_algorithms=(Algorithm.ES256, Algorithm.RS256)),
        fetch=FetchSettings(allow=(ip_network("127.0.0.0/8"),)),
    )
    openid = OpenIdRegistration(
        id_token_signed_response_alg=algorithm,
        subject_type=subject_type,
        id_token_encrypted_response_alg="RSA-OAEP-256" if encrypted else "",
        post_logout_redirect_uris=(BACK,),
        backchannel_logout_uri=ear.url,
    )
    key_set = json.dumps({"keys": [_KEY.as_dict(private=False)]}) if encrypted else ""
    metadata = ClientMetadata(
        "Web",
        redirect_uris=(CALLBACK,),
        scopes=("openid",),
        authentication_method="client_secret",
        key_set=key_set,
        openid=openid,
    )
    with Servers(tmp_path, settings=settings, with_resource=False) as servers:
        servers.register_user("ada", PASSWORD)
        servers.register_client(metadata, "web", SECRET)
        person = UserAgent(servers.auth_url)
        parameters = {"response_type": "code", "client_id": "web", "redirect_uri": CALLBACK}
        query = urlencode(parameters | {"scope": "openid"})
        page = person.open(f"{servers.auth_url}/oauth/authorize?{query}")
        code = person.allow(person.sign_in(page, "ada", PASSWORD)).redirect_parameters["code"]
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK}
        form |= {"client_id": "web", "client_secret": SECRET}
        tokens = requests.post(f"{servers.auth_url}/oauth/token", form, timeout=SECONDS).json()
        before, claims = _read(servers, tokens["id_token"])
        # Whoever was sent an encrypted one has opened it: what is inside is the hint.
        hint = tokens["id_token"]
        if encrypted:
            plaintext = jwe.decrypt_compact(hint, _KEY, algorithms=_ENCRYPTION).plaintext
            assert plaintext is not None
            hint = plaintext.decode()
        leave = urlencode({"id_token_hint": hint, "post_logout_redirect_uri": BACK})
        question = person.open(f"{servers.auth_url}/oauth/logout?{leave}")
        assert person.submit(question, "sign-out").location == BACK
        (token,) = ear.heard
        assert token.count(".") == (4 if encrypted else 2)
        header, logout_claims = _read(servers, token)
        assert (header["typ"], header["alg"]) == ("logout+jwt", algorithm)
        assert before["alg"] == algorithm
        assert [logout_claims[name] for name in ("iss", "aud", "sub", "sid")] == [
            claims[name] for name in ("iss", "aud", "sub", "sid")
        ]
        assert "nonce" not in logout_claims
