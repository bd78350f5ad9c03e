"""What settings may not contradict each other in, S28 first."""

from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from tests.cli.serving.test_tls import certify
from valetkey.config.agreement import is_loopback, missing_files
from valetkey.config.load import OperatorErrors, load
from valetkey.config.paths import certificate_files, credential_path, keyring_path

PUBLIC = '[authorization]\nurl = "https://auth.example"\nlisten = "0.0.0.0:443"\n'


def problems(directory: Path, text: str) -> list[str]:
    file = directory / "valetkey.toml"
    file.write_text(text, encoding="utf-8")
    try:
        load(file, {})
    except OperatorErrors as errors:
        return [problem.path for problem in errors.problems]
    return []


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        (PUBLIC, ["authorization.listen"]),
        (PUBLIC + "tls_proxy = true\n", []),
        (PUBLIC + 'trusted_proxies = ["192.0.2.1"]\n', []),
        (PUBLIC + 'tls_certificate = "c.pem"\ntls_key = "k.pem"\n', []),
        (PUBLIC + 'tls_certificate = "c.pem"\n', ["authorization.tls_key"]),
        (PUBLIC + 'tls_key = "k.pem"\n', ["authorization.tls_certificate"]),
        (
            PUBLIC + 'tls_certificate = "c.pem"\ntls_key = "k.pem"\ntls_proxy = true\n',
            ["authorization.tls_proxy"],
        ),
        ('[authorization]\nurl = "http://auth.example"\n', ["authorization.url"]),
        ('[authorization]\nurl = "http://[::1]:8400"\nlisten = "[::1]:8400"\n', []),
        ("[authorization]\ntls_proxy = true\n", ["authorization.url"]),
        ('[resource]\nlisten = "127.0.0.1:8400"\n', ["resource.listen"]),
        (
            '[authorization]\nlisten = "127.0.0.1:0"\n[resource]\nlisten = "127.0.0.1:0"\n',
            [],
        ),
        ('[resource]\nurl = "http://localhost:8400"\n', ["resource.url"]),
        ('[resource]\nauthorization_url = "http://auth.example"\n', ["resource.authorization_url"]),
        (
            '[tokens]\nkey_publication = "2d"\nsigning_key_lifetime = "3d"\n',
            ["tokens.key_publication"],
        ),
        ('[metrics]\nlisten = "127.0.0.1:8402"\n', []),
        ('[metrics]\nlisten = "0.0.0.0:8402"\n', ["metrics.listen"]),
        ('[metrics]\nlisten = "0.0.0.0:8402"\nbearer_token_file = "t"\n', []),
    ],
)
def test_settings_that_contradict_each_other_are_named(
    tmp_path: Path, text: str, wrong: list[str]
) -> None:
    assert problems(tmp_path, text) == wrong


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("sqlite:///a.db", "sqlite:///a.db", True),
        ("sqlite:///a.db", "sqlite:///./b/../a.db", True),
        ("sqlite:///a.db", "sqlite:///b.db", False),
        ("postgresql://a@h/x", "postgresql://b:secret@h:5432/x", True),
        ("postgresql://a@h/x", "postgres://a@h/x", True),
        ("postgresql://a@h/x", "postgresql://a@h/y", False),
        ("postgresql://a@h:5432/x", "postgresql://a@h:5433/x", False),
        ("postgresql:///x?host=/run/one", "postgresql:///x?host=/run/two", False),
        ("postgresql:///x?host=/run/one", "postgresql:///x?host=/run/one&application_name=b", True),
        ("postgresql://a@h/x", "postgresql://a@h/x?options=-csearch_path%3Db", True),
        ("postgresql://h/?dbname=x", "postgresql://h:5432/x?sslmode=require", True),
        ("postgresql://x@h", "postgresql://h?user=x", True),
        ("postgresql://a@h/x", "sqlite:///a.db", False),
    ],
)
def test_shared_database_is_refused_for_any_spelling_of_its_url(
    tmp_path: Path, one: str, other: str, same: bool
) -> None:
    text = f'[authorization]\ndatabase = "{one}"\n[resource]\ndatabase = "{other}"\n'
    assert problems(tmp_path, text) == (["resource.database"] if same else [])


@pytest.mark.parametrize(
    ("host", "answer"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("[::1]", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("192.168.0.1", False),
        ("localhost.example", False),
        ("", False),
    ],
)
def test_only_loopback_hosts_are_recognized(host: str, answer: bool) -> None:
    assert is_loopback(host) is answer


def test_missing_certificate_and_key_files_are_reported_before_start(tmp_path: Path) -> None:
    file = tmp_path / "valetkey.toml"
    file.write_text(
        PUBLIC + 'tls_certificate = "c.pem"\ntls_key = "k.pem"\n',
        encoding="utf-8",
    )
    settings = load(file, {})
    assert certificate_files(settings, settings.authorization) == (
        tmp_path / "c.pem",
        tmp_path / "k.pem",
    )
    assert certificate_files(settings, settings.resource) is None
    (tmp_path / "c.pem").touch()
    (missing_key,) = missing_files(settings, ("authorization", "resource"))
    assert missing_key.path == "authorization.tls_key"
    assert list(missing_files(settings, ("authorization",)))
    assert not any(
        problem.path.startswith("authorization")
        for problem in missing_files(settings, ("resource",))
    )


def test_unusable_or_mismatched_private_key_is_reported_before_start(tmp_path: Path) -> None:
    file = tmp_path / "valetkey.toml"
    file.write_text(PUBLIC + 'tls_certificate = "c.pem"\ntls_key = "k.pem"\n', encoding="utf-8")
    settings = load(file, {})
    certify(tmp_path)
    assert not list(missing_files(settings, ("authorization",)))
    key = (tmp_path / "k.pem").read_bytes()
    certify(tmp_path)
    own = serialization.load_pem_private_key((tmp_path / "k.pem").read_bytes(), None)
    locked = own.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    for text, why in (
        (key, "does not match the key"),
        (b"not PEM", "cannot be read"),
        (locked, "cannot be read"),
    ):
        (tmp_path / "k.pem").write_bytes(text)
        (problem,) = missing_files(settings, ("authorization",))
        assert problem.path == "authorization.tls_certificate"
        assert why in problem.wrong
        assert "without a password" in problem.right


def test_missing_or_empty_ca_file_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "valetkey.toml"
    file.write_text('[fetch]\nca_file = "ca.pem"\n', encoding="utf-8")
    settings = load(file, {})
    (problem,) = missing_files(settings, ("authorization", "resource"))
    assert problem.path == "fetch.ca_file"
    assert "fetch.ca_file" in {missing.path for missing in missing_files(settings, ("resource",))}
    (tmp_path / "ca.pem").touch()
    (problem,) = missing_files(settings, ("authorization", "resource"))
    assert "holds no certificates" in problem.wrong
    certify(tmp_path)
    (tmp_path / "c.pem").rename(tmp_path / "ca.pem")
    assert not list(missing_files(settings, ("authorization", "resource")))


def test_a_resource_server_alone_needs_its_credential(tmp_path: Path) -> None:
    file = tmp_path / "valetkey.toml"
    file.write_text("", encoding="utf-8")
    settings = load(file, {})
    (problem,) = missing_files(settings, ("resource",))
    assert problem.path == "resource.credential"
    assert not list(missing_files(settings, ("authorization", "resource")))
    with_credential = load(file, {"VALETKEY__RESOURCE__CREDENTIAL_TEXT": "x" * 40})
    assert not list(missing_files(with_credential, ("resource",)))


def test_keyring_and_credential_default_to_the_database_directory(tmp_path: Path) -> None:
    file = tmp_path / "valetkey.toml"
    file.write_text("", encoding="utf-8")
    settings = load(file, {})
    assert keyring_path(settings) == tmp_path / "valetkey/valetkey.keyring"
    assert credential_path(settings) == tmp_path / "valetkey/resource-server.credential"
    file.write_text(
        '[authorization]\ndatabase = "postgresql://a@h/x"\n'
        '[resource]\ndatabase = "sqlite:////var/r.db"\ncredential = "/etc/secret"\n',
        encoding="utf-8",
    )
    settings = load(file, {})
    assert keyring_path(settings) == tmp_path / "valetkey.keyring"
    assert credential_path(settings) == Path("/etc/secret")
