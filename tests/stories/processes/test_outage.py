"""The authorization server goes away and comes back: the API answers what it can meanwhile."""

import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import requests

from tests.cli.running import PROGRAM, Running, clean_environment
from tests.stories.processes.serving import PASSWORD, SECRET, configure, kill_together
from tests.support.wait import CEILING, wait_until

_PATIENCE = CEILING


@contextmanager
def _one(here: Path, server: str) -> Generator[str]:
    """One of the two servers, alone; its address."""
    process = Running(
        [str(PROGRAM), "serve", server, "--config", "valetkey.toml"],
        cwd=here,
        env=clean_environment(),
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        ready = process.stdout.readline().split()
        assert ready[:1] == ["ready"], ready
        yield dict(word.split("=", 1) for word in ready[1:])[server]
    finally:
        kill_together(process)
        process.stdout.close()


def _tokens(auth: str) -> dict[str, str]:
    form = {"grant_type": "password", "username": "ada", "password": PASSWORD}
    answer = requests.post(f"{auth}/oauth/token", form, auth=("printer", SECRET), timeout=60)
    tokens: dict[str, str] = answer.json()
    assert answer.status_code == 200, tokens
    return tokens


def _get(api: str, path: str, token: str) -> requests.Response:
    bearer = {"Authorization": f"Bearer {token}"}
    return requests.get(f"{api}{path}", headers=bearer, timeout=60)


def test_notes_are_read_while_the_authorization_server_is_away(
    database_url: str, tmp_path: Path
) -> None:
    configure(tmp_path, database_url)
    with _one(tmp_path, "authorization") as auth:
        token = _tokens(auth)["access_token"]
        with _one(tmp_path, "resource") as api:
            assert _get(api, "/v2/notes", token).status_code == 200
            assert _get(api, "/v2/account", token).json()["name"] == "Ada Lovelace"
    # Both were killed. The API comes back alone, and remembers the keys it had met.
    with _one(tmp_path, "resource") as api:
        assert _get(api, "/v2/notes", token).status_code == 200
        away = _get(api, "/v2/account", token)
        assert away.status_code == 503
        assert int(away.headers["retry-after"]) > 0
        with _one(tmp_path, "authorization") as auth:
            assert _get(api, "/v2/account", token).json()["name"] == "Ada Lovelace"
            fresh = _tokens(auth)
            assert _get(api, "/v2/notes", fresh["access_token"]).status_code == 200
            # The API follows revocations again.
            form = {"token": fresh["refresh_token"]}
            revoked = requests.post(
                f"{auth}/oauth/revoke", form, auth=("printer", SECRET), timeout=60
            )
            assert revoked.status_code == 200
            wait_until(lambda: _get(api, "/v2/notes", fresh["access_token"]).status_code != 200)
            refused = _get(api, "/v2/notes", fresh["access_token"])
            assert refused.status_code == 401
            assert refused.json()["title"] == "Invalid Token Error"
