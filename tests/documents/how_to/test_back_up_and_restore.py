"""The guide to backups, followed to the end by somebody whose disk is gone."""

import shutil
from pathlib import Path

from tests.documents.pages import blocks
from tests.documents.shell import Terminal

PAGE = "docs/how-to/operate/back-up-and-restore.md"


def test_backup_is_restored_after_data_loss(tmp_path: Path) -> None:
    (apply,) = (
        b for b in blocks("docs/how-to/apps/register-a-client.md") if b.title == "apply.toml"
    )
    (tmp_path / "valetkey.toml").write_text("")
    terminal = Terminal(tmp_path)
    terminal.write(apply)
    terminal.run("valetkey apply apply.toml --config valetkey.toml --yes")
    terminal.run("valetkey database migrate --config valetkey.toml")
    keys = terminal.run("valetkey key list --json --config valetkey.toml")
    back_up, *_, restore = (block for block in blocks(PAGE) if block.language == "sh")
    terminal.run(back_up.code)
    shutil.rmtree(tmp_path / "valetkey")
    terminal.run(restore.code)
    assert "printer" in terminal.run("valetkey client list --config valetkey.toml")
    assert "FILE" not in keys
