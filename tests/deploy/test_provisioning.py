"""The example that provisions through the admin API: a plan, a change, and nothing left to do."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

from tests.architecture.tree import ROOT
from tests.cli.commands.test_user import make_ada
from tests.cli.running import valetkey
from tests.cli.site import begin, serving


def test_declared_objects_are_created_changed_and_deleted(tmp_path: Path) -> None:
    begin(tmp_path)
    make_ada(tmp_path)
    assert valetkey("user", "role", "ada", "owner", here=tmp_path).code == 0
    permissions = [f"--permission={permission}" for permission in ("read", "people", "clients")]
    create = ("admin-token", "create", "--for", "ada", "--name", "Provisioning", *permissions)
    token = str(valetkey(*create, "--json", here=tmp_path).json["token"])
    file = tmp_path / "desired.json"
    shutil.copy(ROOT / "examples/provision/desired.json", file)
    desired = json.loads(file.read_text())
    with serving(tmp_path) as site:

        def run(*options: str) -> list[str]:
            file.write_text(json.dumps(desired))
            done = subprocess.run(
                [sys.executable, ROOT / "examples/provision/provision.py", file, *options],
                env={"VALETKEY_URL": site.authorization, "VALETKEY_TOKEN": token},
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stdout + done.stderr
            return done.stdout.splitlines()

        planned = run()
        assert planned[0] == "create groups/staff: name, description"
        assert planned[-1] == run()[-1] == "3 to change"
        applied = run("--apply")
        assert applied[-1] == "3 changed"
        assert sum("client_secret vk_cs_" in line for line in applied) == 1
        assert run() == ["0 to change"]
        desired["clients"]["planner"]["name"] = "Day planner"
        desired["groups"]["staff"]["name"] = "crew"
        del desired["apis"]["calendar"]
        assert run("--apply") == [
            "change groups/staff: name",
            "change clients/planner: name",
            "delete apis/calendar",
            "3 changed",
        ]
        assert run() == ["0 to change"]
    assert valetkey("group", "show", "crew", here=tmp_path).code == 0
