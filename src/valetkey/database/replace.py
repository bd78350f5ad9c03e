"""Replace a SQLite database that no process has open with a backup."""

import os
import shutil
from pathlib import Path

from valetkey.database.sqlite_connection import check_backup
from valetkey.database.sqlite_files import files_of, sync


def replace_with_backup(backup: Path, path: Path, *, package: str, aside: str) -> None:
    """Copy `backup` to `path`, mode 0600; the previous file is kept with `aside` appended.

    Raises Mistake if the backup is not a database of `package`, and OSError.
    """
    check_backup(backup, package)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.restoring")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as target, backup.open("rb") as source:
        owner = path.parent.stat()
        if os.geteuid() == 0:
            os.fchown(descriptor, owner.st_uid, owner.st_gid)
        shutil.copyfileobj(source, target)
        target.flush()
        os.fsync(descriptor)
    for file in list(files_of(path)):
        file.rename(f"{path}{aside}{str(file).removeprefix(str(path))}")
    draft.rename(path)
    sync(path.parent)
