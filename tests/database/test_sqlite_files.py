"""Who may read the files of a SQLite database."""

import asyncio
import os
import stat
from pathlib import Path

import pytest

from valetkey.database.sqlite import SQLite
from valetkey.kernel.refusal import Mistake

_TABLE = "CREATE TABLE a (id BIGINT PRIMARY KEY)"


def test_only_the_owner_may_read_the_files(tmp_path: Path) -> None:
    async def story() -> None:
        engine = SQLite(tmp_path / "new" / "a.db")
        await engine.write(lambda db: db.run(_TABLE))
        await engine.backup(str(tmp_path / "new" / "copy.db"))
        files = list((tmp_path / "new").iterdir())
        assert len(files) > 2
        assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
        assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700
        await engine.close()

    before = os.umask(0)
    try:
        asyncio.run(story())
    finally:
        os.umask(before)


@pytest.mark.parametrize("end", ["", "-wal", "-shm"])
def test_files_that_others_may_read_are_refused(tmp_path: Path, end: str) -> None:
    async def story() -> None:
        engine = SQLite(tmp_path / "a.db")
        await engine.write(lambda db: db.run(_TABLE))
        file = tmp_path / f"a.db{end}"
        for mode in (0o640, 0o604, 0o620, 0o602):
            file.chmod(mode)
            with pytest.raises(Mistake, match=f"run: chmod 600 {file}$"):
                SQLite(tmp_path / "a.db")
        file.chmod(0o600)
        another = SQLite(tmp_path / "a.db")
        await another.close()
        await engine.close()

    asyncio.run(story())
