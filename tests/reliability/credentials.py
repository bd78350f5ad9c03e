"""E33: the password, the authority and the certificates of a PostgreSQL connection change."""

import datetime as dt
import ipaddress
import random
import shutil
import signal
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from bench.ports import free_port
from tests.reliability.changes import no_failure, replaced, wait_for_more
from tests.reliability.load import asking
from tests.reliability.nodes import Node, configure, register, stopped_in_the_end
from tests.reliability.outcome import Outcome
from tests.support import postgres
from tests.support.wait import wait_until

_ROLE = "rotating"
_SSL = (
    "SELECT count(*), count(*) FILTER (WHERE client_serial = %s) FROM pg_stat_ssl"
    " JOIN pg_stat_activity USING (pid) WHERE usename = 'rotating'"
)


class Authority:
    """A certificate authority for one round of the experiment."""

    def __init__(self, number: int) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, f"CA {number}")])
        self._number = number
        self.pem = self._sign(self._name, self._key.public_key(), 1, ca=True)

    def issue(self, name: str, serial: int) -> bytes:
        """A certificate for 127.0.0.1 and its key, in one PEM text."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        return self._sign(subject, key.public_key(), serial, ca=False) + private

    def _sign(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, serial: int, *, ca: bool
    ) -> bytes:
        now = dt.datetime.now(dt.UTC)
        address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(serial)
            .not_valid_before(now - dt.timedelta(days=1))
            .not_valid_after(now + dt.timedelta(days=3))
            .add_extension(
                x509.SubjectAlternativeName([address, x509.DNSName("localhost")]), critical=False
            )
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
            .public_bytes(serialization.Encoding.PEM)
        )


@dataclass(frozen=True, slots=True)
class _Rotating:
    """A PostgreSQL that asks for TLS, a client certificate and a password."""

    folder: Path
    files: Path
    port: int

    @property
    def admin(self) -> str:
        return f"{postgres.url(self.folder, 'postgres')}&port={self.port}"

    @property
    def url(self) -> str:
        parameters = {
            "sslmode": "verify-full",
            "sslrootcert": self.files / "ca.pem",
            "sslcert": self.files / "client.pem",
            "sslkey": self.files / "client.pem",
            "passfile": self.files / "pgpass",
        }
        query = "&".join(f"{name}={value}" for name, value in parameters.items())
        return f"postgresql://{_ROLE}@127.0.0.1:{self.port}/{_ROLE}?{query}"

    def trust(self, *authorities: Authority) -> None:
        """Server and client trust these; new connections meet it at once."""
        pem = b"".join(authority.pem for authority in authorities)
        self._put(self.folder / "data/clients.pem", pem)
        _replace(self.files / "ca.pem", pem)
        self._reload()

    def certify(self, authority: Authority, number: int) -> None:
        """Give server and client a certificate of this authority."""
        self._put(self.folder / "data/server.pem", authority.issue("server", 1_000 + number))
        self._reload()
        # Certificate and key in one file change together.
        _replace(self.files / "client.pem", authority.issue(_ROLE, 2_000 + number))

    def set_password(self, password: str) -> None:
        """Change the password where it is kept twice."""
        self._tell(f"ALTER ROLE {_ROLE} PASSWORD '{password}'")
        line = f"127.0.0.1:{self.port}:{_ROLE}:{_ROLE}:{password}\n"
        _replace(self.files / "pgpass", line.encode())

    def begin(self) -> None:
        """Make role and database."""
        self._tell(f"CREATE ROLE {_ROLE} LOGIN", f"CREATE DATABASE {_ROLE} OWNER {_ROLE}")

    def uses(self, number: int) -> bool:
        """Whether every connection shows the client certificate of this round."""
        with psycopg.connect(self.admin, autocommit=True) as raw:
            row = raw.execute(_SSL, (2_000 + number,)).fetchone()
            return row is not None and row[0] == row[1] > 0

    def _reload(self) -> None:
        if (self.folder / "data/postmaster.pid").exists():
            self._tell("SELECT pg_reload_conf()")

    def _tell(self, *statements: str) -> None:
        with psycopg.connect(self.admin, autocommit=True) as raw:
            for statement in statements:
                raw.execute(statement.encode())

    def _put(self, file: Path, content: bytes) -> None:
        draft = _draft(file, content)
        if (user := postgres.unprivileged()) is not None:
            shutil.chown(draft, user)
        draft.rename(file)


def _draft(file: Path, content: bytes) -> Path:
    draft = file.with_name(f"{file.name}.new")
    draft.write_bytes(content)
    draft.chmod(0o600)
    return draft


def _replace(file: Path, content: bytes) -> None:
    _draft(file, content).replace(file)


@contextmanager
def _rotating(files: Path, first: Authority) -> Generator[_Rotating]:
    with postgres.own_server() as folder:
        made = _Rotating(folder, files, free_port())
        data = folder / "data"
        postgres.stop(data)
        made.trust(first)
        made.certify(first, 0)
        rules = f"local all all trust\nhostssl all {_ROLE} all scram-sha-256 clientcert=verify-ca\n"
        (data / "pg_hba.conf").write_text(rules)
        more = {
            "listen_addresses": "127.0.0.1",
            "port": str(made.port),
            "ssl": "on",
            "ssl_cert_file": "server.pem",
            "ssl_key_file": "server.pem",
            "ssl_ca_file": "clients.pem",
        }
        postgres.start(data, folder, more)
        made.begin()
        made.set_password("password 0")
        yield made


def rotated_credentials(folder: Path, times: int, chance: random.Random) -> Outcome:
    """The password, both certificates and their authority change under load, over and over."""
    address = f"127.0.0.1:{free_port()}"
    node = Node(folder / "node")
    before = Authority(0)
    with _rotating(folder, before) as server:
        configure(node.here, url=f"http://{address}", listen=address, database=server.url)
        register(node.here)
        with stopped_in_the_end(node):
            node.start()
            with asking(address, address) as load:
                for number in range(1, times + 1):
                    authority = Authority(number)
                    server.trust(before, authority)
                    server.certify(authority, number)
                    server.set_password(f"password {number}")
                    wait_for_more(load)
                    workers = set(node.workers())
                    assert node.process is not None
                    node.process.send_signal(signal.SIGHUP)
                    wait_until(lambda workers=workers: replaced(node, workers))  # type: ignore[misc]
                    wait_for_more(load)
                    assert wait_until(lambda number=number: server.uses(number))  # type: ignore[misc]
                    server.trust(authority)
                    before = authority
                wait_for_more(load)
    done = f"{times} rotations of password, authority and both certificates"
    return no_failure("E33 credentials of PostgreSQL over TLS", done, load)
