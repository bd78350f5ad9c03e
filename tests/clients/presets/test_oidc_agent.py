"""Debian's oidc-agent: by its preset with the device flow, and with a client it registers itself.

`--pw-env` and `--confirm-default` answer what it would ask at a terminal.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.clients.presets.site import PASSWORD, provider, register
from tests.support.wait import CEILING, wait_until
from valetkey.config.settings import RegistrationMode
from valetkey.testing.browser import UserAgent
from valetkey.testing.server import Servers

UNATTENDED = ("--pw-env", "--confirm-default")


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with provider(tmp_path_factory.mktemp("provider"), RegistrationMode.OPEN) as running_servers:
        yield running_servers


@pytest.fixture
def oidc_agent(tmp_path: Path) -> Iterator[Mapping[str, str]]:
    """An agent that runs: the environment of the programs that use it."""
    program = shutil.which("oidc-agent")
    assert program is not None, "oidc-agent is missing"
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "TMPDIR": str(tmp_path),
        "OIDC_CONFIG_DIR": str(tmp_path),
        "OIDC_ENCRYPTION_PW": "a password of this test",
    }
    started = json.loads(run(environment, program, "--json", "--no-autoload"))
    environment["OIDC_SOCK"] = started["socket"]
    environment["OIDCD_PID"] = str(started["dpid"])
    ready = ["oidc-add", "--loaded"]  # It says where it listens before it does.
    wait_until(
        lambda: (
            not subprocess.run(ready, check=False, env=environment, capture_output=True).returncode
        ),
        "the agent does not listen",
    )
    yield environment
    run(environment, program, "--kill")


def run(environment: Mapping[str, str], *command: str) -> str:
    """Run a program to its end: what it wrote, which is also in the message if it fails."""
    done = subprocess.run(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=CEILING,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def account_is_usable(environment: Mapping[str, str], name: str) -> None:
    """Get a token, unload and load the account from its file, and get another token."""
    first = run(environment, "oidc-token", name).strip()
    run(environment, "oidc-add", "--remove", name)
    run(environment, "oidc-add", "--pw-env", name)
    second = run(environment, "oidc-token", "--force-new", name).strip()
    assert first.count(".") == second.count(".") == 2
    assert first != second


def found_in(read_output: Callable[[], str], pattern: str) -> str:
    """Wait until the pattern is in what a program says: its first group."""
    wait_until(
        lambda: re.search(pattern, read_output()) is not None, f"nothing like {pattern} was said"
    )
    match = re.search(pattern, read_output())
    assert match is not None
    return match[1]


def test_oidc_agent_signs_in_by_device_code(
    servers: Servers, oidc_agent: Mapping[str, str], tmp_path: Path
) -> None:
    log = tmp_path / "said"
    command = shlex.split(register(servers, "oidc-agent").files["console"])
    with log.open("w") as output:
        process = subprocess.Popen(
            [*command, *UNATTENDED],
            env=oidc_agent,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        address = found_in(log.read_text, r"visit:\s+(\S+)")
        code = found_in(log.read_text, r"enter the code: (\S+)")
        person = UserAgent(servers.auth_url)
        page = person.sign_in(person.open(address), "ada", PASSWORD)
        page = person.submit(page, "continue", {"user_code": code})
        scopes = ("openid", "profile", "email", "offline_access")
        person.submit(page, "allow", boxes=("yes", *scopes))
        wait_until(lambda: process.poll() is not None, "it never got its token")
        assert process.returncode == 0, log.read_text()
        account_is_usable(oidc_agent, "valetkey")
    finally:
        process.kill()
        process.wait()


def test_oidc_agent_registers_itself_and_signs_in_by_its_own_scheme(
    servers: Servers, oidc_agent: Mapping[str, str]
) -> None:
    options = ("--flow=code", "--no-url-call", "--no-webserver", *UNATTENDED)
    issuer, scope = f"--issuer={servers.auth_url}", "--scope=openid profile offline_access"
    output = run(oidc_agent, "oidc-gen", issuer, scope, *options, "home")
    address = re.search(rf"{servers.auth_url}/oauth/authorize\S+", output)
    assert address is not None, output
    person = UserAgent(servers.auth_url)
    page = person.allow(person.sign_in(person.open(address[0]), "ada", PASSWORD))
    assert page.location.startswith("edu.kit.data.oidc-agent:/redirect?code=")
    run(oidc_agent, "oidc-gen", f"--codeExchange={page.location}", *UNATTENDED, "home")
    account_is_usable(oidc_agent, "home")
