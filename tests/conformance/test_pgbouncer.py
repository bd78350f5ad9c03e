"""PostgreSQL behind PgBouncer does what every engine must do, in both modes that can be used."""

from collections.abc import Iterator

import pytest

from tests.support.pgbouncer import pooling_sessions, pooling_transactions
from valetkey.testing.engine_conformance import EngineConformance


class TestPoolerOfTransactions(EngineConformance):
    @pytest.fixture
    def engine_url(self, postgres_url: str) -> Iterator[str]:
        with pooling_transactions(postgres_url) as url:
            yield f"{url}&target_session_attrs=read-write"


class TestPoolerOfSessions(EngineConformance):
    @pytest.fixture
    def engine_url(self, postgres_url: str) -> Iterator[str]:
        with pooling_sessions(postgres_url) as url:
            yield f"{url}&target_session_attrs=read-write"
