"""`valetkey demo --walk` as a shell runs it; and with a site that is wrong, it says so."""

import re
import threading
from pathlib import Path

import pytest

from tests.cli.running import valetkey
from valetkey.cli.demo.notes_printer import NotesPrinter
from valetkey.cli.demo.running import Running
from valetkey.cli.demo.site import (
    PASSWORD,
    PRINTER,
    CalendarApi,
    DemoSite,
    known_secrets,
    prepare_demo,
)
from valetkey.cli.demo.walking.walk import CHAPTERS, walk
from valetkey.cli.say import Exit
from valetkey.config.settings import Settings
from valetkey.kernel.replace import replace
from valetkey.testing.server import Servers

GRANTS = (
    "authorization_code",
    "implicit",
    "password",
    "client_credentials",
    "refresh_token",
)


def test_walk_prints_every_chapter_and_every_response_is_correct(tmp_path: Path) -> None:
    ran = valetkey("demo", "--walk", "--verbose", here=tmp_path)
    assert ran.code == 0, ran.out + ran.err
    assert ran.err.splitlines() == [
        "Creating databases, keys, users and apps …",
        "Starting two servers, an app and a second API …",
    ]
    titles = re.findall(r"^ ?(\d+)\. ", ran.out, re.MULTILINE)
    assert [int(number) for number in titles] == list(range(1, len(CHAPTERS) + 1))
    for text in (
        *GRANTS,
        "RFC 9728",
        '"groups": ["readers"]',
        "Invalid Token Error",
        "access_denied",
        "insufficient_scope",
    ):
        assert text in ran.out, text
    assert "✗" not in ran.out
    last = ran.out.splitlines()[-1]
    assert re.fullmatch(
        rf"All responses were correct: {len(CHAPTERS)} chapters, \d+ exchanges, \d+ checks, "
        r"\d+\.\d seconds\.",
        last,
    )
    assert not list(tmp_path.iterdir())
    shows_no_secret(ran.out)
    assert "\x1b" not in ran.out
    assert max(len(line) for line in ran.out.splitlines()) <= 110


def test_walk_prints_one_line_per_chapter(tmp_path: Path) -> None:
    ran = valetkey("demo", "--walk", here=tmp_path)
    assert ran.code == 0, ran.out + ran.err
    titles = re.findall(r"^✓ +(\d+)\. .*  \d+ exchanges?$", ran.out, re.MULTILINE)
    assert [int(number) for number in titles] == list(range(1, len(CHAPTERS) + 1))
    assert len(ran.out.splitlines()) <= len(CHAPTERS) + 13


def shows_no_secret(text: str) -> None:
    """Our secrets have 43 characters and a checksum, a JWT has dots, Basic is base64."""
    assert PASSWORD not in text
    assert not re.search(r"vk_[a-z]{2}_\w{12}", text)
    assert not re.search(r"eyJ[\w-]*\.[\w-]+", text)
    assert not re.search(r"Basic [A-Za-z0-9+/]{16}", text)


def test_json_report_of_the_walk_lists_every_chapter_without_secrets(tmp_path: Path) -> None:
    ran = valetkey("demo", "--walk", "--json", "--keep", "kept", here=tmp_path)
    assert ran.code == 0, ran.err
    report = ran.json
    assert report["right"] is True
    assert report["wrong"] == []
    assert len(report["chapters"]) == len(CHAPTERS)
    assert all(chapter["exchanges"] and chapter["checks"] for chapter in report["chapters"])
    shows_no_secret(ran.out)
    for secret in known_secrets(tmp_path / "kept").values():
        assert secret not in ran.out


def test_wrong_response_is_reported_with_expected_and_received_value(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An app whose secret is another one: everything that needs it fails, and nothing else."""
    before = set(threading.enumerate())
    defaults = Settings()
    settings = replace(
        defaults,
        authorization=replace(defaults.authorization, database="sqlite:///authorization.db"),
        resource=replace(defaults.resource, database="sqlite:///resource.db"),
    )
    servers = Servers(tmp_path, settings=settings)
    secrets = known_secrets(tmp_path)
    app = NotesPrinter(
        ("127.0.0.1", 0), servers.auth_url, servers.api_url, PRINTER, secrets[PRINTER]
    )
    calendar = CalendarApi(("127.0.0.1", 0), servers.auth_url)
    urls = servers.auth_url, servers.api_url, app.url, calendar.identifier
    site = DemoSite(tmp_path, *urls, secrets)
    prepare_demo(site)
    wrong = replace(site, secrets={**secrets, PRINTER: "x" * 40})
    threads = [threading.Thread(target=at.serve_forever, args=(0.05,)) for at in (app, calendar)]
    for thread in threads:
        thread.start()
    try:
        with servers:
            code = walk(Running(wrong, threading.Event()), as_json=False)
    finally:
        for at, thread in zip((app, calendar), threads, strict=True):
            at.shutdown()
            thread.join()
            at.server_close()
    # The calendar follows the issuer in a thread, as gates of earlier tests may.
    assert not {thread for thread in threading.enumerate() if thread.name == "valetkey"} - before
    assert code == Exit.FAILED
    output = capsys.readouterr().out
    assert "All responses were correct" not in output
    assert "chapter 1, exchange 1: status: expected 200, received 401" in output
    # The app without a secret has what it needs.
    assert "chapter 3," not in output
    assert "x" * 40 not in output
