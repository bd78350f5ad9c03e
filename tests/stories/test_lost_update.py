"""An account is changed by many at once through the API, and no change is lost."""

from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
import requests

from tests.support.wait import CEILING
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.config.settings import AuthorizationSettings, Settings
from valetkey.testing.server import Servers

_SECRET = "the-secret-of-the-apps-own-forty-letters"
_PASSWORD = "correct horse battery staple"
_THREADS = 8


@pytest.fixture
def servers(database_url: str, tmp_path: Path) -> Generator[Servers]:
    settings = Settings(authorization=AuthorizationSettings(database=database_url))
    with Servers(tmp_path, settings=settings) as running:
        running.register_user("ada", _PASSWORD)
        own = ClientMetadata(
            "Own", grant_types=("password",), scopes=("account:read", "account:write")
        )
        running.register_client(own, "own", _SECRET)
        yield running


def test_one_of_many_updates_with_the_same_etag_succeeds(servers: Servers) -> None:
    form = {"grant_type": "password", "username": "ada", "password": _PASSWORD}
    answer = requests.post(
        f"{servers.auth_url}/oauth/token", form, auth=("own", _SECRET), timeout=60
    )
    bearer = {"Authorization": f"Bearer {answer.json()['access_token']}"}
    url = f"{servers.api_url}/v2/account"
    for round_ in range(5):
        tag = requests.get(url, headers=bearer, timeout=60).headers["etag"]
        start = Barrier(_THREADS)

        def rename(
            number: int, tag: str = tag, start: Barrier = start, round_: int = round_
        ) -> int:
            start.wait()
            headers = {**bearer, "If-Match": tag}
            name = {"name": f"Ada {round_} {number}"}
            return requests.patch(url, json=name, headers=headers, timeout=CEILING).status_code

        with ThreadPoolExecutor(_THREADS) as threads:
            statuses = list(threads.map(rename, range(_THREADS)))
        assert sorted(statuses) == [200] + [412] * (_THREADS - 1)
        won = requests.get(url, headers=bearer, timeout=60).json()["name"]
        assert won == f"Ada {round_} {statuses.index(200)}"
