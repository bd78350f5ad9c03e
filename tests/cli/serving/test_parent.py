"""The process that supervises: small, because it is there for as long as the servers are."""

import os
import subprocess
import sys
from pathlib import Path

from valetkey.cli.serving.parent import remove_note

LISTED = "import sys, valetkey.cli.serving.parent; print(*sys.modules)"
SERVE = "import sys, valetkey.cli.commands.serve; print(*sys.modules)"


def loaded_by(program: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_parent_loads_only_its_own_modules() -> None:
    modules = loaded_by(LISTED)
    ours = {name for name in modules if name.startswith("valetkey.")}
    assert ours == {
        "valetkey.cli",
        "valetkey.cli.serving",
        "valetkey.cli.serving.parent",
        "valetkey.cli.serving.supervise",
        "valetkey.config",
        "valetkey.config.environment",
    }
    folded = {name.partition(".")[0] for name in modules}
    assert folded.isdisjoint({"apsw", "click", "cryptography", "httpx2", "jinja2", "msgspec"})
    assert folded.isdisjoint({"asyncio", "dataclasses", "inspect", "logging", "ssl", "structlog"})


def test_configuration_check_loads_no_server_modules() -> None:
    folded = {name.partition(".")[0] for name in loaded_by(SERVE)}
    assert folded.isdisjoint({"apsw", "asyncio", "cryptography", "httpx2", "jinja2", "structlog"})


def test_supervisor_that_ends_leaves_the_process_id_of_the_next_one(tmp_path: Path) -> None:
    """`valetkey reload` finds the servers by it."""
    note = tmp_path / "authorization.pid"
    for written, remains in (("1\n", True), ("", True), (f"{os.getpid()}\n", False)):
        note.write_text(written)
        remove_note(note)
        assert note.exists() == remains
    remove_note(note)
