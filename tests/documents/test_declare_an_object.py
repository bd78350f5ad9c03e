"""The objects of the guide are declared as it says."""

from pathlib import Path

from tests.documents.pages import blocks
from valetkey.config.load import load
from valetkey.resource.objects import OBJECTS
from valetkey.resource.objects.declared.directory import objects_of

PAGE = "docs/how-to/declare-an-object.md"


def test_the_guides_objects_are_objects(tmp_path: Path) -> None:
    by_language = {block.language: block.code for block in blocks(PAGE)}
    folder = tmp_path / "objects"
    folder.mkdir()
    (tmp_path / "valetkey.toml").write_text(by_language["toml"])
    (folder / "tasks.json").write_text(by_language["json"])
    (folder / "books.py").write_text(by_language["python"])
    objects = objects_of(load(tmp_path / "valetkey.toml", {}))[len(OBJECTS) :]
    assert [(each.name, each.reads) for each in objects] == [
        ("books", "read your books"),
        ("tasks", "read your tasks"),
    ]
