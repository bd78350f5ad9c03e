"""Loading settings: what wins, what is refused, and how it is said."""

from pathlib import Path

import pytest

from valetkey.authorization.alerts.settings import AlertSettings
from valetkey.config.load import OperatorErrors, find_file, load
from valetkey.config.settings import ClientProfile, Origin, Settings
from valetkey.kernel.moment import hours, minutes
from valetkey.kernel.refusal import OperatorError

NOTHING: dict[str, str] = {}


def written(directory: Path, text: str) -> Path:
    file = directory / "valetkey.toml"
    file.write_text(text, encoding="utf-8")
    return file


def problems(directory: Path, text: str, environment: dict[str, str] | None = None) -> list[str]:
    with pytest.raises(OperatorErrors) as caught:
        load(written(directory, text), environment or {})
    return [str(problem) for problem in caught.value.problems]


def test_without_file_and_environment_every_value_is_the_default() -> None:
    loaded = load(None, NOTHING)
    plain = Settings()
    assert (loaded.authorization, loaded.resource) == (plain.authorization, plain.resource)
    assert (loaded.tokens, loaded.log) == (plain.tokens, plain.log)
    assert loaded.source.directory == Path.cwd()
    assert loaded.source.origin("tokens.access_token_lifetime") is Origin.DEFAULT


def test_documented_configuration_is_accepted_unchanged(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        """
[authorization]
url = "http://127.0.0.1:8400"            # {auth_url}; the issuer
listen = "127.0.0.1:8400"
database = "sqlite:///valetkey/authorization.db"
tls_certificate = ""
tls_key = ""
trusted_proxies = []
workers = 1

[resource]
url = "http://127.0.0.1:8401"
listen = "127.0.0.1:8401"
database = "sqlite:///valetkey/resource.db"
workers = 1

[tokens]
access_token_lifetime = "1h"
refresh_token_idle_lifetime = "30d"
refresh_token_lifetime = "180d"
authorization_code_lifetime = "60s"
""",
    )
    loaded = load(file, NOTHING)
    assert loaded.tokens == Settings().tokens
    assert loaded.source.file == file
    assert loaded.source.directory == tmp_path
    assert loaded.source.origin("authorization.workers") is Origin.FILE


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    file = written(tmp_path, '[tokens]\naccess_token_lifetime = "2h"\n')
    assert load(file, NOTHING).tokens.access_token_lifetime == hours(2)
    loaded = load(file, {"VALETKEY__TOKENS__ACCESS_TOKEN_LIFETIME": "10m"})
    assert loaded.tokens.access_token_lifetime == minutes(10)
    assert loaded.source.origin("tokens.access_token_lifetime") is Origin.ENVIRONMENT


def test_the_line_of_a_setting_is_known(tmp_path: Path) -> None:
    file = tmp_path / "valetkey.toml"
    file.write_text(
        '# access_token_lifetime = "1h"\n\n[tokens]\naccess_token_lifetime="10m"\n'
        '[ registration ] # apps\n  mode  = "open"\n'
        "[limits]\nrequests = 100\n"
        'portal = { who = "nobody" }\n'.replace("portal", "\n[portal]\n#"),
        encoding="utf-8",
    )
    loaded = load(file, {"VALETKEY__LIMITS__PATIENCE": "5s"})
    assert loaded.source.lines == {
        "tokens.access_token_lifetime": 4,
        "registration.mode": 6,
        "limits.requests": 8,
    }
    file.write_text('limits = { requests = 100 }\ntokens.access_token_lifetime = "10m"\n')
    assert load(file, {}).source.lines == {"tokens.access_token_lifetime": 2}


def test_environment_overrides_invalid_file_values(tmp_path: Path) -> None:
    file = written(tmp_path, "[authorization]\nworkers = 0\n")
    assert load(file, {"VALETKEY__AUTHORIZATION__WORKERS": "2"}).authorization.workers == 2


def test_every_kind_of_setting_can_be_set_by_the_environment() -> None:
    loaded = load(
        None,
        {
            "VALETKEY__AUTHORIZATION__TLS_PROXY": "true",
            "VALETKEY__AUTHORIZATION__URL": "https://auth.example",
            "VALETKEY__AUTHORIZATION__TRUSTED_PROXIES": "10.0.0.0/8, 192.0.2.1",
            "VALETKEY__AUTHORIZATION__KEYRING_TEXT": "a secret",
            "VALETKEY__CLIENTS__DEFAULT_PROFILE": "modern",
            "PATH": "/bin",
            "VALETKEY_CONFIG": "not one of ours",
        },
    )
    assert loaded.authorization.tls_proxy
    shown = [str(network) for network in loaded.authorization.trusted_proxies]
    assert shown == ["10.0.0.0/8", "192.0.2.1/32"]
    assert loaded.authorization.keyring_text is not None
    assert loaded.authorization.keyring_text.reveal() == "a secret"
    assert loaded.clients.default_profile is ClientProfile.MODERN


def test_all_problems_are_reported_at_once(tmp_path: Path) -> None:
    messages = problems(
        tmp_path,
        '[authorization]\nworkers = "two"\nlissten = "127.0.0.1:1"\n[tokens]\n'
        'access_token_lifetime = "1 week"\n[token]\n',
        {"VALETKEY__RESOURCE__WORKER": "1"},
    )
    assert messages == [
        'authorization.workers: "two" is not a whole number; write a whole number from 1 to 64',
        "authorization.lissten: unknown setting; did you mean listen?",
        (
            'tokens.access_token_lifetime: "1 week" is not a length of time; write a whole number '
            'with s, m, h or d, from "1s" to "1d"'
        ),
        "token: unknown section; did you mean [tokens]?",
        ("VALETKEY__RESOURCE__WORKER: unknown setting; did you mean VALETKEY__RESOURCE__WORKERS?"),
    ]


def test_setting_in_a_wrong_section_is_refused_with_the_right_one(tmp_path: Path) -> None:
    assert problems(tmp_path, '[resource]\naccess_token_lifetime = "1h"\n') == [
        (
            "resource.access_token_lifetime: unknown setting; did you mean "
            "tokens.access_token_lifetime?"
        )
    ]
    assert problems(tmp_path, 'listen = "127.0.0.1:1"\n') == [
        (
            "listen: unknown section; it belongs in a section: did you mean "
            "authorization.listen or resource.listen or metrics.listen?"
        )
    ]


def test_lowercase_variable_is_not_silently_ignored() -> None:
    with pytest.raises(OperatorErrors, match="did you mean VALETKEY__LOG__LEVEL"):
        load(None, {"valetkey__log__level": "debug"})


def test_a_secret_in_the_file_is_refused_and_not_repeated(tmp_path: Path) -> None:
    (message,) = problems(tmp_path, '[authorization]\nkeyring_text = "hunter2hunter2"\n')
    assert "VALETKEY__AUTHORIZATION__KEYRING_TEXT" in message
    assert "hunter2" not in message


def test_a_password_in_a_database_url_is_never_repeated(tmp_path: Path) -> None:
    (message,) = problems(tmp_path, '[resource]\ndatabase = "mysql://me:hunter2@host/x"\n')
    assert "hunter2" not in message
    assert "postgresql://user@host/name" in message


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[tokens\n", "is not TOML"),
        (b"\xff\xfe", "is not UTF-8"),
        (b"a = " + b"[" * 100_000, "is n"),
        (b"#" * ((1 << 20) + 1), "larger than 1 MiB"),
    ],
)
def test_unreadable_configuration_file_is_refused(
    tmp_path: Path, content: bytes, said: str
) -> None:
    file = tmp_path / "valetkey.toml"
    file.write_bytes(content)
    with pytest.raises(OperatorError, match=said):
        load(file, NOTHING)


def test_a_file_that_is_not_there_is_an_operator_error(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match=r"none\.toml cannot be read: no such file"):
        load(tmp_path / "none.toml", NOTHING)


def test_default_file_is_found_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_file(None) is None
    written(tmp_path, "")
    assert find_file(None) == Path("valetkey.toml")
    assert find_file(Path("other.toml")) == Path("other.toml")


@pytest.mark.parametrize(
    "wrong",
    [
        'audit.export = ["ftp://a.example"]',
        'audit.export = ["http://a.example/x"]',
        'audit.export = ["https://u:canary@a.example"]',
        'audit.export = ["syslog+tls://a.example/path"]',
        'audit.export = ["file:"]',
        'audit.export = ["file:a", "file:a"]',
        'log.keep_events_of = ["mail"]',
        'log.keep_events_of = ["mail=1s"]',
    ],
)
def test_wrong_destination_or_retention_is_refused_without_password(
    tmp_path: Path, wrong: str
) -> None:
    (tmp_path / "valetkey.toml").write_text(wrong)
    with pytest.raises(OperatorErrors) as refused:
        load(tmp_path / "valetkey.toml", {})
    assert "canary" not in str(refused.value)


def test_destinations_and_retention_are_read_from_file_and_environment(tmp_path: Path) -> None:
    (tmp_path / "valetkey.toml").write_text('log.keep_events_of = ["mail=30d"]')
    exports = "file:a.jsonl, syslog+tls://a.example:6514, http://127.0.0.1:9/x"
    settings = load(tmp_path / "valetkey.toml", {"VALETKEY__AUDIT__EXPORT": exports})
    assert settings.log.keep_events_of == (("mail", 2_592_000),)
    assert len(settings.audit.export) == 3


@pytest.mark.parametrize(
    "text",
    [
        "a@x.example, b@x.example",
        "a@x.example,b@x.example,",
        ' ["a@x.example", "b@x.example"] ',
        '["a@x.example","b@x.example",]',
        "['a@x.example', 'b@x.example']",
    ],
)
def test_a_list_in_a_variable_is_read_as_in_the_file_or_with_commas(text: str) -> None:
    loaded = load(None, {"VALETKEY__ALERTS__TO": text})
    assert loaded.section(AlertSettings).to == ("a@x.example", "b@x.example")


@pytest.mark.parametrize(
    "text", ["[1]", '["a@x.example"', "[" * 5_000, '[["a@x.example"]]', "[]\n]"]
)
def test_invalid_list_is_refused(text: str) -> None:
    with pytest.raises(OperatorErrors, match=r"alerts\.to|ALERTS__TO"):
        load(None, {"VALETKEY__ALERTS__TO": text})
