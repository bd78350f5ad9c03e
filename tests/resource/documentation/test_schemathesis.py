"""The served OpenAPI document against the server, by a tool that nobody here wrote: all checks."""

import os
import re
import subprocess
import sys
from pathlib import Path

import requests

from tests.architecture.tree import ROOT
from tests.resource.objects.books import BOOK, TASK, write_objects
from tests.resource.requests.test_lists import SONGS
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.config.sections.serving import ResourceSettings
from valetkey.config.settings import Settings
from valetkey.kernel.replace import replace
from valetkey.testing.browser import UserAgent
from valetkey.testing.server import Servers

_CONFIGURATION = Path(__file__).with_name("schemathesis.toml")
_HOOKS = "tests.resource.documentation.schemathesis_hooks"
_CALLBACK = "http://127.0.0.1:9999/cb"
_SECRET = "a secret that is long enough for a client"
# Not `write`: the tool would end its own access by DELETE on its authorization.
_SCOPES = ("read", "account:write", "notes:write", "books:write", "songs:write", "tasks:write")


def _token(servers: Servers) -> str:
    servers.register_user("ada", "correct horse battery", uid=1001)
    metadata = ClientMetadata("Fuzzer", redirect_uris=(_CALLBACK,), scopes=_SCOPES)
    servers.register_client(metadata, "fuzzer", _SECRET)
    ada = UserAgent(servers.auth_url)
    page = ada.open(
        f"{servers.auth_url}/oauth/authorize?response_type=code&client_id=fuzzer"
        f"&scope={'%20'.join(_SCOPES)}&redirect_uri={_CALLBACK}"
    )
    code = ada.allow(ada.sign_in(page, "ada", "correct horse battery")).redirect_parameters["code"]
    return str(
        requests.post(
            f"{servers.auth_url}/oauth/token",
            data={"grant_type": "authorization_code", "code": code, "redirect_uri": _CALLBACK},
            auth=("fuzzer", _SECRET),
            timeout=60,
        ).json()["access_token"]
    )


def test_openapi_document_matches_the_behaviour_of_the_server(tmp_path: Path) -> None:
    strict = TASK.replace('"reads"', '"requires_if_match": true, "reads"')
    write_objects(tmp_path, books_py=BOOK, tasks_json=strict, songs_json=SONGS)
    settings = replace(Settings(), resource=ResourceSettings(objects="objects"))
    with Servers(tmp_path, settings=settings) as servers:
        program = Path(sys.executable).with_name("schemathesis")
        command = [str(program), "--no-color", "--config-file", str(_CONFIGURATION), "run"]
        options = ["--checks", "all", "-H", f"Authorization: Bearer {_token(servers)}"]
        ran = subprocess.run(
            [*command, *options, f"{servers.api_url}/v2/openapi.json"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT), "SCHEMATHESIS_HOOKS": _HOOKS},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
    output = "\n".join(line[:300] for line in ran.stdout.splitlines())
    assert ran.returncode == 0, output[-8_000:] + ran.stderr
    # A run that tried nothing would be as green.
    made = re.search(r"(\d+) generated", ran.stdout)
    assert made is not None, ran.stdout
    assert int(made[1]) > 1_000
