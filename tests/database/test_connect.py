"""From the URL of a database to its engine."""

import asyncio
from pathlib import Path

import pytest

from valetkey.database.connect import connect
from valetkey.database.engine import DatabaseUnavailable
from valetkey.kernel.refusal import OperatorError


def _close(url: str, directory: Path) -> None:
    asyncio.run(connect(url, directory=directory).close())


def test_relative_path_is_resolved_in_the_directory_and_folders_are_created(tmp_path: Path) -> None:
    _close("sqlite:///deep/down/a.db", tmp_path)
    assert (tmp_path / "deep/down/a.db").exists()


def test_an_absolute_path_has_a_fourth_slash(tmp_path: Path) -> None:
    _close(f"sqlite:///{tmp_path}/a.db", Path("/nowhere"))
    assert (tmp_path / "a.db").exists()


@pytest.mark.parametrize(
    "url",
    [
        "",
        "mysql://root:hunter2@host/x",
        "sqlite://hunter2.db",
        "sqlite:///",
        "sqlite:///:memory:",
        "postgresql://host:hunter2:1/x?nonsense=1",
        "postgresql://a?hunter2=b",
    ],
)
def test_a_url_that_names_no_database_is_an_operator_error_that_does_not_repeat_it(
    url: str, tmp_path: Path
) -> None:
    with pytest.raises(OperatorError) as caught:
        connect(url, directory=tmp_path)
    assert "hunter2" not in str(caught.value)
    assert caught.value.setting == "database"


def test_a_file_that_is_no_database_is_unavailable(tmp_path: Path) -> None:
    file = tmp_path / "a.db"
    file.write_text("this is not a database, and it is long enough to tell " * 9)
    file.chmod(0o600)
    with pytest.raises(DatabaseUnavailable, match=r"a\.db"):
        connect("sqlite:///a.db", directory=tmp_path)


def test_a_folder_that_is_a_file_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DatabaseUnavailable):
        connect("sqlite:///file/a.db", directory=tmp_path)


def test_unreachable_postgresql_is_reported_by_the_first_transaction(tmp_path: Path) -> None:
    async def story() -> None:
        engine = connect(f"postgresql://ada:hunter2@/x?host={tmp_path}", directory=tmp_path)
        for door in (engine.read, engine.scan, engine.write, engine.change_schema):
            with pytest.raises(DatabaseUnavailable) as caught:
                await door(lambda db: db.row("SELECT 1"))
            assert "hunter2" not in str(caught.value)
        await engine.close()

    asyncio.run(story())
