"""What was answered with 200 is on disk: the power goes in the middle of load, and comes back."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import requests

from tests.stories.processes.serving import Serving, serving

_CALLERS = 16
_BEFORE_THE_CUT = 150


@pytest.mark.parametrize("workers", [1, 2])
def test_nothing_that_was_answered_is_lost(database_url: str, tmp_path: Path, workers: int) -> None:
    answered: list[dict[str, str]] = []
    enough = threading.Event()

    def load(servers: Serving, token: str) -> None:
        while True:
            try:
                answer = servers.refresh(token)
            except requests.RequestException:
                return
            assert answer.status_code == 200, answer.text
            token = answer.json()["refresh_token"]
            answered.append({"family": token.partition(".")[2], "token": token})
            if len(answered) >= _BEFORE_THE_CUT:
                enough.set()

    with (
        ThreadPoolExecutor(_CALLERS) as threads,
        serving(tmp_path, database_url, workers=workers) as servers,
    ):
        redeemed = [servers.redeem(servers.code("phone"), "phone") for _ in range(_CALLERS)]
        tokens = [answer.json()["refresh_token"] for answer in redeemed]
        callers = [threads.submit(load, servers, token) for token in tokens]
        assert enough.wait(60)
        servers.kill()
        for caller in callers:
            caller.result(60)

    with serving(tmp_path, database_url, workers=workers) as servers:
        latest = {entry["family"]: entry["token"] for entry in answered}
        assert len(latest) == _CALLERS
        for token in latest.values():
            # Current, or just replaced by a rotation whose answer was cut off: both still work.
            answer = servers.refresh(token)
            assert answer.status_code == 200, answer.text
        first = {entry["family"]: entry["token"] for entry in reversed(answered)}
        # And nothing old came back to life (RT-09).
        for token in first.values():
            assert servers.refresh(token).json()["error"] == "invalid_grant"


def test_a_code_spent_before_the_cut_stays_spent(database_url: str, tmp_path: Path) -> None:
    with serving(tmp_path, database_url) as servers:
        code = servers.code()
        assert servers.redeem(code).status_code == 200
        servers.kill()
    with serving(tmp_path, database_url) as servers:
        assert servers.redeem(code).json()["error"] == "invalid_grant"
