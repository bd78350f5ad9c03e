"""The tests run on the version of PostgreSQL that was asked for."""

import os

import psycopg


def test_server_has_the_expected_version(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as raw:
        version = raw.info.server_version // 10_000
    assert version == 18 if os.environ.get("VALETKEY_TEST_NEWEST_POSTGRES") else version >= 15
