"""`valetkey config check` and `valetkey serve` look into the directory of objects."""

from pathlib import Path

from tests.cli.running import valetkey
from tests.resource.objects.books import BOOK, TASK, write_objects

_FILE = '[resource]\nobjects = "objects"\n'


def test_invalid_object_file_is_reported_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "valetkey.toml").write_text(_FILE, encoding="utf-8")
    write_objects(tmp_path, books_py=BOOK, tasks_json=TASK.replace("maxItems", "maxitems"))
    assert valetkey("config", "check", here=tmp_path).code == 0
    write_objects(tmp_path, bad_json="{", worse_py="1 +")
    ran = valetkey("config", "check", here=tmp_path)
    assert ran.code == 2
    assert "objects/bad.json: the body is not JSON" in ran.err
    assert "objects/worse.py: SyntaxError in line 1" in ran.err
    ran = valetkey("serve", here=tmp_path)
    assert ran.code == 2
    assert "objects/bad.json" in ran.err
