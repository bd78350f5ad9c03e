"""`valetkey demo` as it stays up: what it prints works, and what it started is gone afterwards."""

import re
import signal
import socket
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urljoin
from urllib.request import urlopen

import pytest

from tests.cli.running import PROGRAM, Running, clean_environment
from tests.support.processes import children
from tests.support.wait import CEILING, wait_until
from valetkey.cli.demo.site import OWNER, OWNER_PASSWORD, PASSWORD, PRINTER, SERVICE, USERNAME
from valetkey.testing.browser import Page, UserAgent


@contextmanager
def demo(here: Path, *arguments: str) -> Generator[tuple[subprocess.Popen[str], str]]:
    """A demo that is up, and its screen; its temporary folders are made in `here`."""
    with Running(
        [str(PROGRAM), "demo", *arguments],
        cwd=here,
        env={**clean_environment(), "TMPDIR": str(here)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            screen = ""
            while "Ctrl-C" not in screen:
                line = process.stdout.readline()
                assert line, process.stderr.read() if process.stderr else ""
                screen += line
            yield process, screen
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                process.communicate(timeout=CEILING)


def urls(screen: str) -> list[str]:
    return sorted(set(re.findall(r"http://(?:127\.0\.0\.1|localhost):\d+", screen)))


def is_free(url: str) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", int(url.rpartition(":")[2]))) != 0


def all_free(addresses: list[str]) -> bool:
    """Whether nobody listens there, now or in a moment."""
    return wait_until(lambda: all(is_free(url) for url in addresses))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_demo_leaves_nothing_behind(tmp_path: Path, number: signal.Signals) -> None:
    with demo(tmp_path) as (process, screen):
        folders = list(tmp_path.iterdir())
        assert [folder.name.startswith("valetkey-demo-") for folder in folders] == [True]
        assert folders[0].stat().st_mode & 0o077 == 0
        addresses, started = urls(screen), children(process.pid)
        assert len(addresses) == 4
        # Both servers, and what each is forked from.
        assert len(started) == 4
        process.send_signal(number)
        _, error = process.communicate(timeout=CEILING)
        assert process.returncode == 0
    first, second, last = error.splitlines()
    assert first.startswith("Creating databases")
    assert second.startswith("Starting two servers")
    assert last == "Stopped. Nothing is left behind."
    assert not list(tmp_path.iterdir())
    assert all_free(addresses)
    assert not [child for child in started if Path(f"/proc/{child}").exists()]


def consent(screen: str, username: str, password: str) -> Page:
    """The page on which Notes Printer asks this user for access to notes."""
    app, home = (re.findall(rf"{name} +(http\S+)", screen)[0] for name in ("open", "account"))
    query = f"response_type=code&client_id={PRINTER}&redirect_uri={app}/callback&scope=notes:read"
    person = UserAgent(home.rstrip("/"))
    return person.sign_in(person.open(f"{home}oauth/authorize?{query}"), username, password)


def test_consent_page_shows_a_verified_app_with_its_logo(tmp_path: Path) -> None:
    with demo(tmp_path) as (_, screen):
        page = consent(screen, USERNAME, PASSWORD)
        assert f"Verified by {SERVICE}" in page.text
        (logo,) = re.findall(r'<img class="face" src="([^"]+)"', page.body)
        with urlopen(urljoin(page.url, logo), timeout=60) as answer:
            assert answer.headers["Content-Type"] == "image/webp"


def test_demo_output_fits_one_screen_and_its_commands_work(tmp_path: Path) -> None:
    with demo(tmp_path) as (_, screen):
        assert len(screen.splitlines()) <= 25
        assert USERNAME in screen
        assert PASSWORD in screen
        assert "/token?grant_type=client_credentials&client_id=printer" in screen
        answers = [pasted(command) for command in commands(screen)]
        assert '"token_type":"bearer"' in answers[0]
        assert '"Lisbon, 12 to 16 May"' in answers[1]
        assert '"From a terminal"' in answers[2]
        app = re.findall(r"open +(\S+)", screen)[0]
        assert "Connect your notes" in urlopen(app, timeout=60).read().decode()
        calendar = re.findall(r"calendar +(\S+)", screen)[0]
        refused = pasted(f"curl -s -i {calendar} -d '{{}}'")
        assert refused.startswith("HTTP/1.0 401")
        assert "resource_metadata=" in refused


def test_demo_has_an_app_with_usage_and_an_owner_who_can_sign_in(tmp_path: Path) -> None:
    with demo(tmp_path) as (_, screen):
        portal = re.findall(r"developers +(\S+)", screen)[0]
        ada = UserAgent(portal)
        page = ada.sign_in(ada.open(portal), USERNAME, PASSWORD)
        assert "Notes Printer" in page.text
        app = f"{portal}/apps/{PRINTER}"
        usage = ada.open(f"{app}/usage").text
        assert "refresh_token" in usage
        assert "282" in usage  # what was refreshed in the seven days before
        failures = ada.open(f"{app}/requests")
        assert "redirect_uri is not registered for this app" in failures.text
        reference = re.findall(r"/failures/(VK-[0-9A-Z-]+)", failures.body)[-1]
        assert ada.open(f"{app}/failures/{reference}").status == 200
        assert "The app does not use PKCE" in ada.open(f"{app}/health").text
        home = re.findall(r"owner +(\S+)", screen)[0]
        assert OWNER in screen
        assert OWNER_PASSWORD in screen
        grace = UserAgent(home)
        page = grace.sign_in(grace.open(home), OWNER, OWNER_PASSWORD)
        assert (page.status, page.url) == (200, home)
        # The command of the screen is about this demo's keyring, wherever it is typed.
        configuration = re.findall(r"commands +(\S*valetkey .*? --config \S+)", screen)[0]
        assert str(tmp_path) in configuration
        # A link that cannot work says so, and advises nothing that makes another keyring.
        over = grace.open(f"{home}/owner?link=old")
        assert over.status == 404
        assert "has an owner" in over.text
        assert "valetkey owner" not in over.text
        # Every command on a page names this demo's configuration, and works anywhere.
        explained = ada.open(f"{home.removesuffix('/admin')}/errors/invalid_request")
        assert re.findall(r"valetkey explain \S+ --config (\S+)", explained.text)
        explained = ada.open(f"{explained.url}?reference={reference}")
        command = re.findall(r"<code>valetkey (explain VK-\S+ --config \S+)</code>", explained.body)
        assert reference in pasted(f"cd / && {PROGRAM} {command[-1]}")


def commands(screen: str) -> list[str]:
    """What somebody would copy from the screen."""
    below = screen.partition("Commands to try")[2].partition("Stop it")[0]
    return [block.split("\n", 1)[1] for block in below.strip().split("\n\n")]


def pasted(command: str) -> str:
    """What a shell says to it."""
    return subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, timeout=CEILING, check=True
    ).stdout


def test_kept_demo_has_its_data_after_a_restart(tmp_path: Path) -> None:
    with demo(tmp_path, "--keep", "kept") as (process, screen):
        pasted(commands(screen)[2])
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=CEILING)
    assert error.endswith("Stopped. Everything is kept in kept.\n")
    assert (tmp_path / "kept" / "authorization.db").exists()
    with demo(tmp_path, "--keep", "kept") as (_, screen):
        notes = pasted(commands(screen)[1])
        assert "From a terminal" in notes
        assert notes.count('"id"') == 4


def test_servers_keep_running_after_the_walk_with_stay(tmp_path: Path) -> None:
    with demo(tmp_path, "--walk", "--stay") as (process, screen):
        assert "Valetkey is running" in screen.partition("OpenID Connect")[2]
        configuration = re.findall(r"commands +(\S*valetkey .*? --config \S+)", screen)[0]
        assert "authorization" in pasted(f"cd {tmp_path} && {configuration}; true")
        answers = [pasted(command) for command in commands(screen)]
        assert '"Lisbon, 12 to 16 May"' in answers[1]
        # An app that changed its own address was verified again.
        assert f"Verified by {SERVICE}" in consent(screen, OWNER, OWNER_PASSWORD).text
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=CEILING)
        assert process.returncode == 0


def test_demo_applies_a_changed_setting_and_goes_on(tmp_path: Path) -> None:
    with demo(tmp_path) as (process, screen):
        command = re.findall(r"commands +(\S*valetkey) .*?( --config \S+)", screen)[0]
        home = re.findall(r"account +(\S+)", screen)[0]
        metadata_url = f"{home}.well-known/openid-configuration"
        assert "registration_endpoint" not in pasted(f"curl -s {metadata_url}")
        pasted(f"cd / && {command[0]} settings set registration.mode open{command[1]}")
        assert wait_until(
            lambda: "registration_endpoint" in pasted(f"curl -s --retry 3 {metadata_url}")
        )
        assert process.poll() is None
        assert f"Verified by {SERVICE}" in consent(screen, USERNAME, PASSWORD).text


def test_concurrent_demos_use_different_ports(tmp_path: Path) -> None:
    with demo(tmp_path) as (_, first), demo(tmp_path) as (_, second):
        assert not set(urls(first)) & set(urls(second))


def test_make_prints_commands_for_the_shell_that_called_it() -> None:
    # make adds .venv/bin to its own PATH: with that, `valetkey` would seem to be found by a shell.
    outside = "/usr/bin:/bin"
    ran = subprocess.run(
        ["make", "--dry-run", "demo"],
        cwd=Path(__file__).parents[3],
        env={"PATH": outside},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.splitlines()[-1] == f"PATH='{outside}' .venv/bin/valetkey demo --walk --stay"
