"""`valetkey config`: what is wrong, and what each setting does."""

from pathlib import Path

from tests.cli.running import valetkey
from tests.cli.site import begin


def test_valid_configuration_has_no_problems(tmp_path: Path) -> None:
    (tmp_path / "valetkey.toml").write_text("[authorization]\nworkers = 2\n", encoding="utf-8")
    assert valetkey("config", "check", here=tmp_path).code == 0
    ran = valetkey("config", "check", "--json", here=tmp_path)
    assert ran.json == {"ok": True, "problems": []}


def test_all_problems_of_the_configuration_are_reported_together(tmp_path: Path) -> None:
    file = tmp_path / "other.toml"
    file.write_text("[authorization]\nworker = 2\n[log]\nlevel = 3\n", encoding="utf-8")
    ran = valetkey("config", "check", "--config", str(file), here=tmp_path)
    assert ran.code == 2
    assert "other.toml has 2 problems" in ran.err
    assert "authorization.worker: unknown setting; did you mean workers?" in ran.err
    assert "log.level: 3 is not a string" in ran.err
    ran = valetkey(
        "config", "check", "--json", here=tmp_path, environment={"VALETKEY_CONFIG": str(file)}
    )
    assert ran.code == 2
    assert [problem["setting"] for problem in ran.json["problems"]] == [
        "authorization.worker",
        "log.level",
    ]


def test_missing_certificate_file_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "valetkey.toml").write_text(
        '[authorization]\nurl = "https://127.0.0.1:8400"\ntls_certificate = "c"\ntls_key = "k"\n',
        encoding="utf-8",
    )
    ran = valetkey("config", "check", here=tmp_path)
    assert ran.code == 2
    assert ran.err.count("no such file") == 2


def test_a_setting_is_explained_with_value_origin_default_and_reason(tmp_path: Path) -> None:
    environment = {"VALETKEY__TOKENS__ACCESS_TOKEN_LIFETIME": "10m"}
    arguments = ("config", "explain", "tokens.access_token_lifetime")
    ran = valetkey(*arguments, here=tmp_path, environment=environment)
    assert 'access_token_lifetime = "10m"  (environment; default "1h")' in ran.out
    assert "RFC 9068" in ran.out
    (setting,) = valetkey(*arguments, "--json", here=tmp_path, environment=environment).json
    assert (setting["value"], setting["origin"], setting["default"]) == ("10m", "environment", "1h")


def test_a_value_that_was_set_at_runtime_is_explained(tmp_path: Path) -> None:
    begin(tmp_path)
    name = "tokens.access_token_lifetime"
    assert valetkey("settings", "set", name, "30 min", here=tmp_path).code == 0
    ran = valetkey("config", "explain", name, here=tmp_path)
    assert 'access_token_lifetime = "30m"  (stored; default "1h")' in ran.out
    environment = {"VALETKEY__TOKENS__ACCESS_TOKEN_LIFETIME": "10m"}
    pinned = valetkey("config", "explain", name, here=tmp_path, environment=environment)
    assert '"10m"  (environment; default "1h")' in pinned.out
    (tmp_path / "valetkey/valetkey.keyring").unlink()
    without = valetkey("config", "explain", name, "--json", here=tmp_path)
    assert without.json[0]["origin"] == "default"
    assert "Without values that were set at runtime" in without.err


def test_config_explain_does_not_show_secrets(tmp_path: Path) -> None:
    environment = {
        "VALETKEY__AUTHORIZATION__KEYRING_TEXT": "hunter2",
        "VALETKEY__RESOURCE__DATABASE": "postgresql://me:hunter2@host/x",
    }
    for extra in ((), ("--json",)):
        ran = valetkey("config", "explain", *extra, here=tmp_path, environment=environment)
        assert ran.code == 0
        assert "hunter2" not in ran.out + ran.err


def test_check_reads_a_theme_and_certificates_as_serve_does(tmp_path: Path) -> None:
    broken = tmp_path / "theme/templates/visitor"
    broken.mkdir(parents=True)
    (broken / "home.html").write_text("<p>\n{% if %}\n", encoding="utf-8")
    (tmp_path / "ca.pem").write_text("no certificate", encoding="utf-8")
    (tmp_path / "valetkey.toml").write_text(
        '[brand]\ntheme = "theme"\n[fetch]\nca_file = "ca.pem"\n', encoding="utf-8"
    )
    ran = valetkey("config", "check", "--json", here=tmp_path)
    assert ran.code == 2
    problems = {problem["setting"]: problem["wrong"] for problem in ran.json["problems"]}
    assert problems.keys() == {"brand.theme", "fetch.ca_file"}
    assert "home.html, line 2" in problems["brand.theme"]
    free = 'url = "http://localhost:0"\nlisten = "127.0.0.1:0"\n'
    (tmp_path / "valetkey.toml").write_text(
        f'[brand]\ntheme = "theme"\n[authorization]\n{free}[resource]\n{free}', encoding="utf-8"
    )
    served = valetkey("serve", here=tmp_path)
    assert served.code == 2
    assert "home.html, line 2" in served.err


def test_check_and_doctor_name_the_line_of_a_wrong_claims_file(tmp_path: Path) -> None:
    free = 'url = "http://localhost:0"\nlisten = "127.0.0.1:0"\n'
    (tmp_path / "valetkey.toml").write_text(
        f'[tokens]\nclaims_file = "claims.py"\n[authorization]\n{free}[resource]\n{free}',
        encoding="utf-8",
    )
    missing = valetkey("config", "check", "--json", here=tmp_path)
    assert [problem["setting"] for problem in missing.json["problems"]] == ["tokens.claims_file"]
    (tmp_path / "claims.py").write_text("x = 1\ndef claims(:\n", encoding="utf-8")
    ran = valetkey("config", "check", "--json", here=tmp_path)
    assert ran.code == 2
    (problem,) = ran.json["problems"]
    assert problem["setting"] == "tokens.claims_file"
    assert "claims.py, line 2: " in problem["wrong"]
    assert "claims.py, line 2: " in valetkey("doctor", here=tmp_path).out
    (tmp_path / "claims.py").write_text("raise SystemExit(3)\n", encoding="utf-8")
    assert valetkey("config", "check", here=tmp_path).code == 0, "the file is not run"


def test_wrong_keep_claims_is_reported_with_its_provider(tmp_path: Path) -> None:
    for written, wrong in (
        ('"hd"', "keep_claims is not a list"),
        ("[7]", "keep_claims contains an invalid name"),
        ('["a b"]', "keep_claims contains an invalid name"),
        (
            str([f"c{number}" for number in range(21)]),
            "keep_claims contains 21 names, 20 are allowed",
        ),
    ):
        (tmp_path / "valetkey.toml").write_text(
            '[[federation.providers]]\nid = "google"\n'
            'issuer = "https://accounts.google.com"\nclient_id = "us"\n'
            f"keep_claims = {written}\n",
            encoding="utf-8",
        )
        ran = valetkey("config", "check", "--json", here=tmp_path)
        assert ran.code == 2
        problems = {problem["setting"]: problem["wrong"] for problem in ran.json["problems"]}
        assert wrong in problems["federation.providers"], problems
