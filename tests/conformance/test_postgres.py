"""PostgreSQL does what every engine must do."""

import pytest

from valetkey.testing.engine_conformance import EngineConformance


class TestPostgres(EngineConformance):
    @pytest.fixture
    def engine_url(self, postgres_url: str) -> str:
        return postgres_url
