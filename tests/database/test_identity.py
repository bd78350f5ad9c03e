"""The note of the database that a server last saw."""

from pathlib import Path

import pytest

from valetkey.database.identity import Seen, last_seen, remember
from valetkey.kernel.moment import Instant

_SEEN = Seen("a" * 32, 3, 40, Instant(1_800_000_000))


def test_note_that_is_removed_while_it_is_read_is_not_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process may begin with an empty database; an empty note would stop every start."""
    note, exists = tmp_path / "authorization.seen", Path.exists

    def found_and_removed(file: Path) -> bool:
        existed = exists(file)
        if file == note:
            file.unlink(missing_ok=True)
        return existed

    remember(note, _SEEN)
    with monkeypatch.context() as then:
        then.setattr(Path, "exists", found_and_removed)
        assert last_seen(note) in {_SEEN, None}
    note.unlink(missing_ok=True)
    assert last_seen(note) is None
    assert not note.exists()
