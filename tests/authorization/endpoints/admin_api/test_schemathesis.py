"""The served document of the admin API against the server, by a tool that nobody here wrote."""

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path

from tests.architecture.tree import ROOT
from valetkey.authorization.actions.admin import tokens
from valetkey.authorization.actions.admin.permissions import CommandLine, Permission
from valetkey.authorization.actions.admin.tokens import FreshToken, WantedToken
from valetkey.authorization.app.foundation import build_foundation
from valetkey.authorization.model.event.event import CLI
from valetkey.authorization.model.user import ApiToken, Role, Uid
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.settings import Settings
from valetkey.kernel.moment import days
from valetkey.kernel.replace import replace
from valetkey.kernel.runtime import SYSTEM
from valetkey.kernel.secret import Prefix, fresh_secret
from valetkey.testing.server import Servers

_CONFIGURATION = Path(__file__).with_name("schemathesis.toml")
_HOOKS = "tests.authorization.endpoints.admin_api.schemathesis_hooks"


def _token(servers: Servers) -> str:
    """A token with every permission, of an owner beside whom there is another."""
    for uid, name in ((1001, "ada"), (1002, "bob"), (1003, "cy")):
        servers.register_user(name, "correct horse battery", uid=uid)
    metadata = ClientMetadata("Printer", redirect_uris=("https://app.example/cb",))
    servers.register_client(metadata, "printer", "a secret that is long enough for a client")
    fresh = FreshToken("at_fuzz", fresh_secret(Prefix.API_TOKEN, SYSTEM.random))
    everything = tuple(permission.value for permission in Permission)
    wanted_token = WantedToken("Fuzzer", everything, days(365), Uid(1001))

    async def make() -> None:
        foundation = build_foundation(servers.settings, SYSTEM, {})
        now = SYSTEM.now()

        def work(tx: Transaction) -> None:
            for uid in (1001, 1002):
                tx.user_directory.set_role(Uid(uid), Role.OWNER, now)
            key = foundation.keyring.fingerprint_key
            made = tokens.issue(tx, CommandLine(), key, wanted_token, fresh, now)
            assert isinstance(made, ApiToken), made

        try:
            await foundation.store.write(work, done_by=CLI)
        finally:
            await foundation.store.engine.close()

    asyncio.run(make())
    return fresh.secret.reveal()


def test_server_conforms_to_the_openapi_document(tmp_path: Path) -> None:
    with Servers(tmp_path, settings=replace(Settings()), with_resource=False) as servers:
        program = Path(sys.executable).with_name("schemathesis")
        command = [str(program), "--no-color", "--config-file", str(_CONFIGURATION), "run"]
        options = ["--checks", "all", "-H", f"Authorization: Bearer {_token(servers)}"]
        ran = subprocess.run(
            [*command, *options, f"{servers.auth_url}/admin/api/v1/openapi.json"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT), "SCHEMATHESIS_HOOKS": _HOOKS},
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
    output = "\n".join(line[:300] for line in ran.stdout.splitlines())
    assert ran.returncode == 0, output[-8_000:] + ran.stderr
    # A run that tried nothing would be as green.
    made = re.search(r"(\d+) generated", ran.stdout)
    assert made is not None, ran.stdout
    assert int(made[1]) > 1_000
