"""`valetkey doctor`: it finds what is wrong, says what to do, and is quiet about what is right."""

import asyncio
import json
import socket
import sqlite3
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

from tests.cli.running import PROGRAM, Ran, clean_environment, valetkey
from tests.cli.site import begin, configure, configure_ports, serving
from valetkey.authorization.actions.inspection.inspector import Inspector
from valetkey.authorization.features import CHECKS
from valetkey.cli.doctoring import holds
from valetkey.cli.register.store import foundation_without_setup
from valetkey.config.load import load


def levels(ran: Ran) -> dict[str, str]:
    worst = {"ok": 0, "warning": 1, "error": 2}
    subject_levels: dict[str, str] = {}
    for finding in ran.json["findings"]:
        before = subject_levels.get(finding["about"], "ok")
        subject_levels[finding["about"]] = max(
            before, finding["level"], key=lambda level: worst[level]
        )
    return subject_levels


def about(ran: Ran, name: str) -> list[dict[str, Any]]:
    return [finding for finding in ran.json["findings"] if finding["about"] == name]


def test_doctor_reports_no_error_on_a_healthy_installation(tmp_path: Path) -> None:
    configure_ports(tmp_path)
    with serving(tmp_path):
        ran = valetkey("doctor", "--logs", "serve.log", "--json", here=tmp_path)
    assert ran.code == 0, ran.out
    subject_levels = levels(ran)
    # Of the machine on which the test runs, and of its kernel.
    subject_levels.pop("this machine's clock", None)
    # Its heartbeat may be written after the server is ready.
    assert subject_levels.pop(f"node {socket.gethostname()}", "ok") == "ok"
    assert subject_levels == dict.fromkeys(
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
            "audit log",
            "sign-out notices",
            "nodes",
            "backup",
        ],
        "ok",
    ) | {"mail": "warning"}


def test_doctor_warns_of_legacy_clients_and_secrets_in_urls(tmp_path: Path) -> None:
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
    texts = [finding["found"] for finding in about(ran, "client robot")]
    assert any("may use the password grant" in text for text in texts)
    assert any("sent its secret in a URL" in text and "Requests: 1," in text for text in texts)
    assert secret not in ran.out


def test_redirect_uri_with_a_response_parameter_is_reported(tmp_path: Path) -> None:
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
    (finding,) = about(ran, "client old")
    assert "responses have too: state" in finding["found"]
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
    assert finding["level"] == "error"
    assert "receiver.example of a webhook has failed since 1970-01-01" in finding["found"]
    assert "s3cret" not in ran.out


def test_console_shows_the_same_findings_in_the_same_sentences(tmp_path: Path) -> None:
    file = begin(tmp_path)
    url = "https://receiver.example/hook"
    assert valetkey("webhook", "create", url, here=tmp_path).code == 0
    create = ("--id", "robot", "--name", "Robot", "--grant-type", "client_credentials")
    assert valetkey("client", "create", *create, here=tmp_path).code == 0
    valetkey("client", "allow-password", "robot", "--yes", here=tmp_path)
    with sqlite3.connect(tmp_path / "valetkey/authorization.db") as database:
        database.execute("UPDATE webhooks SET failures = 3, failing_since = 1")
        database.execute("UPDATE installation SET id = '0123456789abcdef' || id")
        database.execute("DELETE FROM signing_keys")
    database.close()
    credential = tmp_path / "valetkey/resource-server.credential"
    credential.write_text("a-secret")
    credential.chmod(0o644)
    ran = valetkey("doctor", "--json", here=tmp_path)
    doctor_findings = {
        (finding["check"], finding["level"], finding["found"], finding["next"])
        for finding in ran.json["findings"]
        if finding["console"] and finding["level"] != "ok"
    }

    async def shown() -> set[tuple[str, str, str, str]]:
        settings = load(file, {})
        it = foundation_without_setup(settings)
        try:
            inspector = Inspector(settings, it.store, it.keyring, it.roles, CHECKS)
            findings = (await inspector.inspect(it.runtime.now())).findings
        finally:
            await it.close()
        return {
            (
                finding.condition.name,
                finding.level.value,
                finding.sentence,
                " ".join(part for part in (finding.fix, finding.command) if part),
            )
            for finding in findings
        }

    assert asyncio.run(shown()) == doctor_findings
    assert {name for name, *_ in doctor_findings} >= {
        "webhook_failed",
        "password",
        "first_keys",
        "file_mode_open",
        "mail_off",
    }
    # Of these a shell is told alone.
    assert {finding["about"] for finding in ran.json["findings"] if not finding["console"]} >= {
        "configuration",
        "resource database",
        "authorization server",
    }


def test_stopped_servers_are_an_error_with_exit_code_one(tmp_path: Path) -> None:
    configure_ports(tmp_path)
    valetkey("database", "migrate", here=tmp_path)
    ran = valetkey("doctor", here=tmp_path)
    assert ran.code == 1
    assert "cannot be reached" in ran.out
    assert "Check that it is running." in ran.out


def test_canary_is_found_in_a_log_across_a_read_boundary(tmp_path: Path) -> None:
    log = tmp_path / "proxy.log"
    # Across the border of two reads, as luck would have it.
    log.write_bytes(b"x" * ((1 << 20) - 5) + b"canary0123456789 401")
    assert holds(log, "canary0123456789")
    assert not holds(log, "canary0123456780")
    assert not holds(tmp_path / "absent.log", "canary0123456789")


def test_invalid_configuration_is_reported_as_a_finding(tmp_path: Path) -> None:
    (tmp_path / "valetkey.toml").write_text("[authorization]\nworker = 1\n", encoding="utf-8")
    ran = valetkey("doctor", "--json", here=tmp_path)
    assert ran.code == 1
    assert about(ran, "configuration")[0]["level"] == "error"


def test_keys_that_do_not_open_are_found(tmp_path: Path) -> None:
    configure(tmp_path)
    with serving(tmp_path):
        pass
    with sqlite3.connect(tmp_path / "valetkey/authorization.db") as opened:
        opened.execute("UPDATE signing_keys SET sealed = 'v1.AAAA'")
    opened.close()
    ran = valetkey("doctor", "--json", here=tmp_path)
    assert ran.code == 1
    assert levels(ran)["keyring"] == "error"


def test_weak_file_modes_and_few_descriptors_are_reported_with_the_fix(tmp_path: Path) -> None:
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
    findings = {finding["about"]: finding for finding in json.loads(ran.stdout)["findings"]}
    assert findings["file modes"]["level"] == "error"
    assert findings["file modes"]["next"] == f"chmod 600 {credential}"
    assert findings["open files"]["level"] == "warning"
    assert "LimitNOFILE" in findings["open files"]["next"]
