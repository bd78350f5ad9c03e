"""A change counts at once, in every process: a new secret works, a new address is known."""

from pathlib import Path

import pytest
import requests

from tests.cli.running import valetkey
from tests.stories.processes.serving import SECRET, Serving, serving
from valetkey.testing.browser import UserAgent

_TIMES = 12


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> str:
    if request.param == "sqlite":
        return "sqlite:///authorization.db"
    url: str = request.getfixturevalue("postgres_url")
    return url


def _own_token(servers: Serving, secret: str) -> requests.Response:
    form = {"grant_type": "client_credentials", "client_id": "printer", "client_secret": secret}
    # A connection of its own, so that any of the processes may answer.
    return requests.post(f"{servers.auth}/token", form, timeout=60)


def test_new_secret_and_redirect_uri_apply_at_once(database: str, tmp_path: Path) -> None:
    with serving(tmp_path, database, workers=2) as servers:
        for _ in range(_TIMES):
            assert _own_token(servers, SECRET).status_code == 200
        made = valetkey("client", "secret", "printer", "--json", here=tmp_path)
        fresh = made.json["client_secret"]
        answers = [_own_token(servers, fresh) for _ in range(_TIMES)]
        assert [answer.status_code for answer in answers] == [200] * _TIMES
        for number in range(_TIMES):
            uri = f"https://app.example/cb{number}"
            bearer = {"Authorization": f"Bearer {answers[0].json()['access_token']}"}
            changed = requests.patch(
                f"{servers.api}/v2/client", json={"redirect_uri": uri}, headers=bearer, timeout=60
            )
            assert changed.status_code == 200, changed.text
            page = UserAgent(servers.auth).open(
                f"{servers.auth}/oauth/authorize?response_type=code&client_id=printer"
                f"&redirect_uri={uri}&scope=notes:read"
            )
            assert page.status == 200, page.text
