"""The objects of the guide are declared as it says."""

from pathlib import Path

from tests.documents.pages import blocks
from valetkey.config.load import load
from valetkey.resource.objects import OBJECTS
from valetkey.resource.objects.declared import objects_of

PAGE = "docs/how-to/apis/declare-an-object.md"


def test_objects_of_the_guide_load_as_described(tmp_path: Path) -> None:
    def written(language: str) -> list[str]:
        return [block.code for block in blocks(PAGE) if block.language == language]

    folder = tmp_path / "objects"
    folder.mkdir()
    (tmp_path / "valetkey.toml").write_text(written("toml")[0])
    tasks, stock = written("json")
    (folder / "tasks.json").write_text(tasks)
    (folder / "stock.json").write_text(stock)
    (folder / "books.py").write_text(written("python")[0])
    objects = objects_of(load(tmp_path / "valetkey.toml", {}))[len(OBJECTS) :]
    assert [
        (resource_object.name, resource_object.reads, resource_object.owned_by)
        for resource_object in objects
    ] == [
        ("books", "read your books", "user"),
        ("stock", "read its stock", "client"),
        ("tasks", "read your tasks", "user"),
    ]
