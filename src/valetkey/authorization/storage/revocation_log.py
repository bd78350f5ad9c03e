"""A log of revocations outside the database, replayed after a backup is restored.

A backup does not know which accounts were disabled or which passwords were replaced after it was
made. Each line is one event of that kind: its id, time, name, the uid and the client or "-". No
secrets.
"""

import errno
import os
from collections.abc import Sequence
from pathlib import Path

from valetkey.authorization.storage.administration.restoration import LoggedRevocation
from valetkey.kernel.keyring import create_or_read_secret_file, replace_secret_file
from valetkey.kernel.moment import Instant

OVERLAP = 90
"""Seconds that are read again, for slow transactions and differing clocks."""

_LARGEST = 8 * 1024 * 1024
_LONG = 1024 * 1024
_FIELDS = 5
_SINCE = "since "


class RevocationLog:
    """The logged revocations, and the file to append to."""

    def __init__(self, file: Path) -> None:
        """Read the file; create it if it is missing. Raises OperatorError."""
        self._file = file
        text = _read(file) if file.exists() else ""
        # A line without a line end was cut short by a crash; its event is read again.
        head, *lines = text.split("\n")[:-1] or [""]
        if not head.startswith(_SINCE):
            head, lines = f"{_SINCE}0", []
            replace_secret_file(file, f"{head}\n")
        self.since = Instant(int(head.removeprefix(_SINCE)))
        """The time since which every revocation of the database is logged; 0: always."""
        self._known = {each.id: each for each in map(_ending, lines) if each is not None}

    @property
    def all(self) -> Sequence[LoggedRevocation]:
        """Return every logged revocation, oldest first."""
        return sorted(self._known.values(), key=lambda each: (each.at, each.id))

    @property
    def read_from(self) -> Instant:
        """Return the time from which to read events that may not be recorded yet."""
        newest = max((each.at for each in self._known.values()), default=self.since)
        return Instant(max(0, max(self.since, newest) - OVERLAP))

    def note(self, found: Sequence[LoggedRevocation]) -> None:
        """Append the new revocations, synced to disk on return. Raises OSError."""
        news = [each for each in found if each.id not in self._known]
        if not news:
            return
        # The line end in front separates them from a line that was cut short.
        text = "".join(("\n", *map(_line, news))).encode("ascii")
        descriptor = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        try:
            if os.write(descriptor, text) != len(text):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self._known |= {each.id: each for each in news}

    def compact(self) -> None:
        """Rewrite a long file without repetitions; drop the older half if it is still too long."""
        if self._file.stat().st_size < _LONG:
            return
        lines = [_line(each) for each in self.all]
        if sum(map(len, lines)) > _LARGEST:
            forgotten, lines = lines[: len(lines) // 2], lines[len(lines) // 2 :]
            self.since = Instant(int(forgotten[-1].split(" ")[1]))
        replace_secret_file(self._file, f"{_SINCE}{self.since}\n{''.join(lines)}")


def _read(file: Path) -> str:
    return create_or_read_secret_file(file, str, largest=2 * _LARGEST)


def _line(ending: LoggedRevocation) -> str:
    uid = "-" if ending.uid is None else str(ending.uid)
    return f"{ending.id} {ending.at} {ending.name} {uid} {ending.client_id or '-'}\n"


def _ending(line: str) -> LoggedRevocation | None:
    words = line.split(" ")
    if len(words) != _FIELDS or not words[1].isdecimal():
        return None
    id_, at, name, uid, client = words
    return LoggedRevocation(
        id_,
        Instant(int(at)),
        name,
        None if uid == "-" else int(uid),
        None if client == "-" else client,
    )
