"""The authorization server's stores do on each engine what every store must do."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from valetkey.testing.storage_conformance import Memory, StorageConformance


class TestStores(StorageConformance):
    @pytest.fixture
    def memory(self, database_url: str, tmp_path: Path) -> Iterator[Memory]:
        memory = Memory(database_url, tmp_path)
        yield memory
        memory.close()
