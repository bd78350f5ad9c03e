"""SQLite does what every engine must do."""

import pytest

from valetkey.testing.engine_conformance import EngineConformance


class TestSQLite(EngineConformance):
    @pytest.fixture
    def engine_url(self, sqlite_url: str) -> str:
        return sqlite_url
