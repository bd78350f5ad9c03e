"""The guide to upgrades, followed to a later version and back."""

from pathlib import Path

import pytest

from tests.documents.pages import blocks
from tests.documents.shell import Terminal
from tests.reliability.upgrade import EXPAND, later_version

PAGE = "docs/how-to/operate/upgrade.md"
NEXT = "/opt/valetkey-next/bin/valetkey"


@pytest.mark.parametrize("name", ["before_next", "contract"])
def test_guide_upgrades_and_rolls_back(name: str, tmp_path: Path) -> None:
    source = later_version(tmp_path, 1, name, EXPAND)
    (tmp_path / "valetkey.toml").write_text('[tokens]\nsigning_algorithms = ["ES256"]\n')
    terminal = Terminal(tmp_path, {NEXT: f"env PYTHONPATH={source} valetkey"})
    terminal.run("valetkey database migrate --config valetkey.toml")
    back_up, plan, migrate, check, restore = (b for b in blocks(PAGE) if b.language == "sh")
    terminal.run(back_up.code)
    assert name in terminal.run(plan.code)
    terminal.run(migrate.code)
    terminal.run(check.code)
    migrated = terminal.run("valetkey database migrate --plan --config valetkey.toml || echo no")
    if name == "before_next":
        assert "no" not in migrated.splitlines()
        return
    assert "no" in migrated.splitlines()
    terminal.run(restore.code)
    terminal.run("valetkey database migrate --config valetkey.toml")
