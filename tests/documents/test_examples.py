"""What a page tells somebody to type can be typed, and what it tells them to write is taken."""

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT
from tests.documents.pages import Block, blocks, pages, text
from valetkey.cli.main import run
from valetkey.config.load import load

EVERY_BLOCK = [block for page in pages() for block in blocks(page)]


def titled(title: str) -> list[Block]:
    """The blocks that are meant for the file of this name."""
    return [block for block in EVERY_BLOCK if block.title == title]


def typed(program: str) -> Iterator[tuple[str, str]]:
    """Every command line of a program, in blocks and in sentences, with its page."""
    for block in EVERY_BLOCK:
        if block.language == "sh":
            for line in block.code.replace("\\\n", " ").splitlines():
                if line.startswith(f"{program} "):
                    yield block.page, line
    for page in pages():
        prose = re.sub(r"^```.*?^```$", "", text(page), flags=re.MULTILINE | re.DOTALL)
        for match in re.finditer(rf"`({program}(?: [^`]+)?)`", prose):
            yield page, match[1]


@pytest.mark.parametrize("block", titled("valetkey.toml"), ids=lambda block: block.page)
def test_every_configuration_on_a_page_loads(block: Block, tmp_path: Path) -> None:
    file = tmp_path / "valetkey.toml"
    file.write_text(block.code)
    load(file, {})


@pytest.mark.parametrize(("page", "line"), sorted(set(typed("valetkey"))))
def test_every_command_on_a_page_exists(
    page: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [word for word in shlex.split(line)[1:] if "…" not in word]
    assert run([*arguments, "--help"]) == 0, capsys.readouterr().err


def test_every_make_target_on_a_page_exists() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    unknown = [
        f"{page}: {line}" for page, line in typed("make") if shlex.split(line)[1] not in targets
    ]
    assert not unknown


def test_every_python_block_can_be_parsed() -> None:
    for block in EVERY_BLOCK:
        if block.language == "python":
            ast.parse(block.code, block.page)


def test_every_toml_block_names_its_file() -> None:
    names = {"valetkey.toml", "apply.toml", "certify.toml"}
    assert not [b.page for b in EVERY_BLOCK if b.language == "toml" and b.title not in names]


def with_objects(page: str, folder: Path) -> str:
    """The configuration that declares the objects of a page, which are written."""
    names = re.findall(r"`(objects/[a-z]+\.json)`", text(page))
    codes = [block.code for block in blocks(page) if '"x-valetkey"' in block.code]
    if not codes:
        return ""
    (folder / "objects").mkdir()
    for name, code in zip(names, codes, strict=True):
        (folder / name).write_text(code)
    return '[resource]\nobjects = "objects"\n'


@pytest.mark.parametrize("block", titled("apply.toml"), ids=lambda block: block.page)
def test_every_file_to_apply_on_a_page_is_applied_and_then_changes_nothing(
    block: Block, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (config := tmp_path / "valetkey.toml").write_text(with_objects(block.page, tmp_path))
    (file := tmp_path / "apply.toml").write_text(block.code)
    arguments = ["apply", str(file), "--config", str(config), "--yes"]
    assert run(arguments) == 0, capsys.readouterr().err
    assert "Done:" in capsys.readouterr().out
    assert run(arguments) == 0
    assert "Nothing to change." in capsys.readouterr().out
