"""`valetkey doctor`: it finds what is wrong, says what to do, and is quiet about what is right."""

import json
import sqlite3
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

from tests.cli.running import PROGRAM, Ran, clean_environment, valetkey
from tests.cli.site import configure, configure_ports, serving
from valetkey.cli.doctoring.canary import holds
from valetkey.cli.doctoring.databases import judged_skew
from valetkey.cli.doctoring.machine import judged_disk


def levels(ran: Ran) -> dict[str, str]:
    worst = {"good": 0, "mind": 1, "bad": 2}
    found: dict[str, str] = {}
    for finding in ran.json["findings"]:
        before = found.get(finding["about"], "good")
        found[finding["about"]] = max(before, finding["level"], key=lambda level: worst[level])
    return found


def about(ran: Ran, name: str) -> list[dict[str, Any]]:
    return [finding for finding in ran.json["findings"] if finding["about"] == name]


def test_a_site_in_order_is_called_so(tmp_path: Path) -> None:
    configure_ports(tmp_path)
    with serving(tmp_path):
        ran = valetkey("doctor", "--logs", "serve.log", "--json", here=tmp_path)
    assert ran.code == 0, ran.out
    assert levels(ran) == dict.fromkeys(
        [
            "configuration",
            "resource disk",
            "open files",
            "authorization database",
            "resource database",
            "signing keys ES256",
            "credential",
            "authorization server",
            "authorization server's clock",
            "issuer",
            "resource server",
            "resource server's clock",
            "canary",
        ],
        "good",
    ) | {"mail": "mind"}


def test_what_clients_cost_and_a_secret_seen_in_a_url_are_told(tmp_path: Path) -> None:
    configure_ports(tmp_path)
    assert valetkey("database", "migrate", here=tmp_path).code == 0
    create = ("--id", "robot", "--name", "Robot", "--grant-type", "client_credentials", "--json")
    secret = valetkey("client", "create", *create, here=tmp_path).json["client_secret"]
    valetkey("client", "allow-password", "robot", "--yes", here=tmp_path)
    with serving(tmp_path) as site:
        url = (
            f"{site.authorization}/token?grant_type=client_credentials"
            f"&client_id=robot&client_secret={secret}"
        )
        with urllib.request.urlopen(urllib.request.Request(url, method="POST"), timeout=60):
            ran = valetkey("doctor", "--json", here=tmp_path)
    assert ran.code == 0
    found = [finding["found"] for finding in about(ran, "client robot")]
    assert any(text.startswith("password: ") for text in found)
    assert any("came in a URL once" in text for text in found)
    assert secret not in ran.out


def test_registered_redirect_uri_with_a_parameter_of_answers_is_named(tmp_path: Path) -> None:
    configure_ports(tmp_path)
    assert valetkey("database", "migrate", here=tmp_path).code == 0
    create = ("--id", "old", "--name", "Old", "--redirect-uri", "https://app.example/cb")
    assert valetkey("client", "create", *create, here=tmp_path).code == 0
    create = ("--id", "new", "--name", "New", "--redirect-uri", "https://app.example/cb?code=1")
    assert "what answers bring" in valetkey("client", "create", *create, here=tmp_path).err
    # As an earlier version let it be registered.
    with sqlite3.connect(tmp_path / "valetkey/authorization.db") as database:
        uris = '["https://app.example/cb?state=1"]'
        database.execute("UPDATE clients SET redirect_uris = ? WHERE id = 'old'", (uris,))
    ran = valetkey("doctor", "--json", here=tmp_path)
    assert any("has state" in finding["found"] for finding in about(ran, "client old"))
    shown = valetkey("client", "show", "old", "--json", here=tmp_path)
    assert shown.json["redirect_uris"] == ["https://app.example/cb?state=1"]


def test_failing_receiver_of_a_webhook_is_found(tmp_path: Path) -> None:
    configure_ports(tmp_path)
    assert valetkey("database", "migrate", here=tmp_path).code == 0
    url = "https://receiver.example/s3cret"
    made = valetkey("webhook", "create", url, "--json", here=tmp_path)
    about_it = f"webhook {made.json['webhook_id']}"
    assert not about(valetkey("doctor", "--json", here=tmp_path), about_it)
    with sqlite3.connect(tmp_path / "valetkey/authorization.db") as database:
        database.execute("UPDATE webhooks SET failures = 3, failing_since = 1")
    ran = valetkey("doctor", "--json", here=tmp_path)
    (finding,) = about(ran, about_it)
    assert finding["level"] == "bad"
    assert "receiver.example has failed since 1970-01-01" in finding["found"]
    assert "s3cret" not in ran.out


def test_servers_that_do_not_run_are_bad_and_exit_one(tmp_path: Path) -> None:
    configure_ports(tmp_path)
    valetkey("database", "migrate", here=tmp_path)
    ran = valetkey("doctor", here=tmp_path)
    assert ran.code == 1
    assert "cannot be reached" in ran.out
    assert "Does it run?" in ran.out


def test_a_log_that_holds_the_canary_is_found_wherever_it_stands(tmp_path: Path) -> None:
    log = tmp_path / "proxy.log"
    # Across the border of two reads, as luck would have it.
    log.write_bytes(b"x" * ((1 << 20) - 5) + b"canary0123456789 401")
    assert holds(log, "canary0123456789")
    assert not holds(log, "canary0123456780")
    assert not holds(tmp_path / "absent.log", "canary0123456789")


def test_a_wrong_configuration_is_a_finding_not_a_crash(tmp_path: Path) -> None:
    (tmp_path / "valetkey.toml").write_text("[authorization]\nworker = 1\n", encoding="utf-8")
    ran = valetkey("doctor", "--json", here=tmp_path)
    assert ran.code == 1
    assert about(ran, "configuration")[0]["level"] == "bad"


def test_keys_that_do_not_open_are_found(tmp_path: Path) -> None:
    configure(tmp_path)
    with serving(tmp_path):
        pass
    with sqlite3.connect(tmp_path / "valetkey/authorization.db") as opened:
        opened.execute("UPDATE signing_keys SET sealed = 'v1.AAAA'")
    opened.close()
    ran = valetkey("doctor", "--json", here=tmp_path)
    assert ran.code == 1
    assert levels(ran)["keyring"] == "bad"


def test_clocks_are_judged_by_the_tolerance_of_the_protocol() -> None:
    skews = {0: "good", 10: "good", 11: "mind", 60: "mind", 61: "bad"}
    assert {skew: judged_skew("clock", skew).level.value for skew in skews} == skews


def test_disk_is_judged_by_share_and_by_what_is_left() -> None:
    gibibyte = 1 << 30

    def level(free: float, total: int) -> str:
        return judged_disk("disk", Path("/"), int(free * gibibyte), total * gibibyte).level

    assert [level(50, 100), level(5, 100), level(0.5, 100)] == ["good", "mind", "bad"]
    assert level(20, 1_000) == "good"


def test_weak_file_modes_and_few_descriptors_are_told_with_the_fix(tmp_path: Path) -> None:
    configure(tmp_path)
    assert valetkey("database", "migrate", here=tmp_path).code == 0
    credential = tmp_path / "valetkey/resource-server.credential"
    credential.write_text("a-secret")
    credential.chmod(0o644)
    ran = subprocess.run(
        ["sh", "-c", f"ulimit -S -n 256; ulimit -H -n 512; exec {PROGRAM} doctor --json"],
        cwd=tmp_path,
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1
    found = {each["about"]: each for each in json.loads(ran.stdout)["findings"]}
    assert found["file modes"]["level"] == "bad"
    assert found["file modes"]["next"] == f"chmod 600 {credential}"
    assert found["open files"]["level"] == "mind"
    assert "LimitNOFILE" in found["open files"]["next"]
