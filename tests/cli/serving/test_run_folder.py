"""The temporary directory of a run, and what is left of runs that were killed."""

import os
import tempfile
from pathlib import Path

import pytest

from valetkey.cli.serving import plan
from valetkey.kernel.moment import Instant
from valetkey.kernel.runtime import SYSTEM


def test_directories_of_killed_runs_are_removed_and_others_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with tempfile.TemporaryDirectory(prefix="vk-", dir="/tmp") as made:
        monkeypatch.setattr(tempfile, "tempdir", made)
        now = SYSTEM.now()
        running, held = plan.begin(now)
        killed, lost = plan.begin(now)
        (killed / "ledger").touch()
        os.close(lost)
        elsewhere = Path(made, "valetkey-run-link")
        elsewhere.symlink_to("/etc")
        soon, at_once = plan.begin(now)
        assert killed.exists(), "it may be about to be locked"
        later, _lock = plan.begin(Instant(now + 3_600))
        assert {folder.name for folder in Path(made).iterdir()} == {
            folder.name for folder in (running, soon, later, elsewhere)
        }
        assert later.stat().st_mode & 0o077 == 0
        for descriptor in (held, at_once, _lock):
            os.close(descriptor)
