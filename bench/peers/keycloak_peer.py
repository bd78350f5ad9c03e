"""Keycloak on PostgreSQL, from its distribution as a Maven artifact, in production mode."""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, urlencode

from psycopg.conninfo import conninfo_to_dict

from bench.peers.install import maven_archive
from bench.peers.peer import SCOPE, Paths, Peer, first_answer
from bench.peers.postgres import postgres
from bench.ports import free_port
from bench.servers import family
from bench.workloads import CALLBACK, CHALLENGE, PASSWORD, SECRET, Place
from valetkey.kernel.replace import replace
from valetkey.testing.browser import UserAgent

NAME = "Keycloak, PostgreSQL"
VERSION = "26.7.3"
WARM = 100.0
"""Seconds of CPU that the JVM gets before it is measured: its compiler goes on for so long."""

_PATIENCE = 300.0
_REALM = "/realms/bench"
_PROTOCOL = f"{_REALM}/protocol/openid-connect"
_PATHS = Paths(
    token=f"{_PROTOCOL}/token",
    machine_token=f"{_PROTOCOL}/token",
    authorize=f"{_PROTOCOL}/auth",
    introspection=f"{_PROTOCOL}/token/introspect",
    userinfo=f"{_PROTOCOL}/userinfo",
    keys=f"{_PROTOCOL}/certs",
    discovery=f"{_REALM}/.well-known/openid-configuration",
)


def java_is_there() -> bool:
    """Whether this machine has Java and Maven; from the distribution where we may install."""
    missing = [name for name in ("java", "mvn") if shutil.which(name) is None]
    if missing and os.geteuid() == 0 and shutil.which("apt-get"):
        print("Java and Maven are installed from the distribution, for Keycloak")
        install = ["apt-get", "install", "-y", "--no-install-recommends", "maven"]
        subprocess.run([*install, "default-jre-headless"], check=False, capture_output=True)
    return all(shutil.which(name) for name in ("java", "mvn"))


def fetch() -> str:
    """Fetch and build it once; "" if it is there, else why it is not."""
    if not java_is_there():
        return "there is no Java or no Maven here"
    try:
        home = maven_archive("org.keycloak", "keycloak-quarkus-dist", VERSION)
        built = home / "lib/quarkus/built-for-postgres"
        if not built.exists():
            build = ["sh", "bin/kc.sh", "build", "--db=postgres"]
            subprocess.run(build, cwd=home, check=True, capture_output=True, timeout=600)
            built.touch()
    except (OSError, subprocess.SubprocessError) as error:
        return f"its distribution could not be fetched ({type(error).__name__})"
    return ""


@contextmanager
def keycloak(directory: Path) -> Generator[Peer]:
    """It, in one process, with a realm that signs by ES256, whose user is signed in."""
    home = maven_archive("org.keycloak", "keycloak-quarkus-dist", VERSION)
    address, at = Place("127.0.0.1", free_port()), free_port()
    url = f"http://{address.host}:{address.port}"
    with postgres(at) as (urls, parent, engine):
        kept = conninfo_to_dict(urls[0])
        realm = directory / "realm.json"
        realm.write_text(json.dumps(_realm()))
        variables = {
            "KC_DB_URL": f"jdbc:postgresql://127.0.0.1:{at}/{kept['dbname']}",
            "KC_DB_USERNAME": str(kept["user"]),
            "KC_HTTP_ENABLED": "true",
            "KC_HTTP_HOST": address.host,
            "KC_HTTP_PORT": str(address.port),
            "KC_HOSTNAME": url,
            "KC_CACHE": "local",
        }
        environment = os.environ | variables
        # Schema and clients first, as with all others; `start` alone is its time to start.
        prepare = ["sh", "bin/kc.sh", "import", "--optimized", "--file", str(realm)]
        subprocess.run(
            prepare, cwd=home, env=environment, check=True, capture_output=True, timeout=_PATIENCE
        )
        began = time.monotonic()
        with (directory / "log").open("w") as log:
            process = subprocess.Popen(
                ["sh", "bin/kc.sh", "start", "--optimized"],
                cwd=home,
                env=environment,
                stdout=log,
                stderr=log,
            )
        try:
            started = first_answer(address, _PATHS.discovery, began, _PATIENCE)
            peer = Peer(
                NAME,
                address,
                _PATHS,
                lambda: [*family(process.pid), *family(parent)],
                f"Keycloak {VERSION}, {_java()}, {engine}",
                {"jwt": {"client_id": "service"}},
                _sign_in(url),
                posts_secret=True,
                started=started,
                warm=WARM,
                databases=lambda: family(parent),
            )
            by_rs256 = replace(peer, public="phone-rs256", signs="RS256")
            yield replace(peer, by_rs256=by_rs256)
        finally:
            process.terminate()
            process.wait(60)


def _sign_in(url: str) -> Mapping[str, str]:
    """The cookies of Ada's session."""
    query = {"response_type": "code", "client_id": "phone", "redirect_uri": CALLBACK}
    pkce = {"code_challenge": CHALLENGE, "code_challenge_method": "S256"}
    person = UserAgent(url)
    query_string = urlencode(query | {"scope": SCOPE} | pkce, quote_via=quote)
    page = person.open(f"{url}{_PATHS.authorize}?{query_string}")
    page = person.submit(page, "kc-login", {"username": "ada", "password": PASSWORD})
    assert page.redirect_parameters["code"], page.text
    return dict(person.cookies)


def _java() -> str:
    output = subprocess.run(["java", "-version"], check=True, capture_output=True, text=True).stderr
    return f"Java {output.split(chr(34))[1]}"


def _realm() -> Mapping[str, object]:
    """The clients of the bench and Ada; refresh tokens rotate, and old ones are void."""

    def machine(client_id: str) -> Mapping[str, object]:
        return {
            "clientId": client_id,
            "secret": SECRET,
            "serviceAccountsEnabled": True,
            "standardFlowEnabled": False,
            # Keycloak answers introspection only to a client in the token's audience.
            "protocolMappers": [
                {
                    "name": "audience",
                    "protocol": "openid-connect",
                    "protocolMapper": "oidc-audience-mapper",
                    "config": {
                        "included.client.audience": "reference",
                        "access.token.claim": "true",
                        "introspection.token.claim": "true",
                    },
                }
            ],
        }

    def key(provider: str, **config: str) -> Mapping[str, object]:
        return {
            "name": provider,
            "providerId": provider,
            "config": {name: [value] for name, value in {"priority": "100", **config}.items()},
        }

    def app(client_id: str, algorithm: str) -> Mapping[str, object]:
        signed = {"id.token.signed.response.alg": algorithm}
        return {
            "clientId": client_id,
            "publicClient": True,
            "redirectUris": [CALLBACK],
            "attributes": {"pkce.code.challenge.method": "S256", **signed},
            "optionalClientScopes": ["notes:read"],
        }

    ada = {
        "username": "ada",
        "email": "ada@example.com",
        "emailVerified": True,
        "firstName": "Ada",
        "lastName": "Lovelace",
        "enabled": True,
        "credentials": [{"type": "password", "value": PASSWORD}],
    }
    keys = [
        key("ecdsa-generated", ecdsaEllipticCurveKey="P-256"),
        key("rsa-generated", keySize="2048"),
        key("hmac-generated", algorithm="HS512"),
        key("aes-generated"),
    ]
    return {
        "realm": "bench",
        "enabled": True,
        "sslRequired": "none",
        "defaultSignatureAlgorithm": "ES256",
        "accessTokenLifespan": 3_600,
        "ssoSessionIdleTimeout": 86_400,
        "ssoSessionMaxLifespan": 86_400,
        "revokeRefreshToken": True,
        "refreshTokenMaxReuse": 0,
        "clients": [
            machine("service"),
            machine("reference"),
            app("phone", "ES256"),
            app("phone-rs256", "RS256"),
        ],
        "clientScopes": [{"name": "notes:read", "protocol": "openid-connect"}],
        "users": [ada],
        "components": {"org.keycloak.keys.KeyProvider": keys},
    }
