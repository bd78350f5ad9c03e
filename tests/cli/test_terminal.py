"""On a terminal: color, questions, passwords that are not echoed."""

import os
import pty
import select
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from tests.cli.running import PROGRAM, clean_environment, valetkey
from tests.cli.site import begin, configure
from tests.support.wait import CEILING

ADA = '[[users]]\nusername = "ada"\nemail = "ada@example.com"\n'


@dataclass(frozen=True, slots=True)
class Shown:
    """What stood on the terminal in the end, and how the command ended."""

    screen: str
    code: int


def on_a_terminal(here: Path, *arguments: str, answers: tuple[tuple[str, str], ...] = ()) -> Shown:
    """Run `valetkey` on a terminal and type an answer whenever its question has come."""
    outer, inner = pty.openpty()
    process = subprocess.Popen(
        [str(PROGRAM), *arguments],
        cwd=here,
        env={**clean_environment(), "TERM": "xterm", "COLUMNS": "100"},
        stdin=inner,
        stdout=inner,
        stderr=inner,
        start_new_session=True,
    )
    os.close(inner)
    screen, waiting, seen = "", list(answers), 0
    until = time.monotonic() + CEILING
    while time.monotonic() < until:
        ready, _, _ = select.select([outer], [], [], 0.2)
        if ready:
            try:
                screen += os.read(outer, 4096).decode()
            except OSError:
                break
        if waiting and waiting[0][0] in screen[seen:]:
            seen = len(screen)
            os.write(outer, waiting.pop(0)[1].encode() + b"\n")
    code = process.wait(60)
    os.close(outer)
    return Shown(screen, code)


def test_plan_is_coloured_and_applied_after_confirmation(tmp_path: Path) -> None:
    configure(tmp_path)
    (tmp_path / "apply.toml").write_text(ADA, encoding="utf-8")
    shown = on_a_terminal(tmp_path, "apply", "apply.toml", answers=(("Apply these changes?", "y"),))
    assert shown.code == 0
    assert "\x1b[32m+ user ada" in shown.screen
    assert len(valetkey("user", "list", "--json", here=tmp_path).json) == 1


def test_declined_plan_changes_nothing(tmp_path: Path) -> None:
    configure(tmp_path)
    (tmp_path / "apply.toml").write_text(ADA, encoding="utf-8")
    shown = on_a_terminal(tmp_path, "apply", "apply.toml", answers=(("Apply these changes?", "n"),))
    assert shown.code == 1
    assert "Nothing was changed." in shown.screen
    assert valetkey("user", "list", "--json", here=tmp_path).json == []


def test_password_is_prompted_for_twice_and_never_displayed(tmp_path: Path) -> None:
    begin(tmp_path)
    shown = on_a_terminal(
        tmp_path,
        *("user", "create", "ada", "--email", "ada@example.com"),
        answers=(("Password", "correct horse"), ("Repeat", "correct horse")),
    )
    assert shown.code == 0
    assert "ada" in shown.screen
    assert "correct horse" not in shown.screen
