"""Whatever may happen once happens once: 64 at a time, in one process and two, on each engine."""

from collections.abc import Generator
from contextlib import ExitStack

import pytest

from tests.stories.processes.serving import Serving, cpu_seconds, serving, together
from tests.support import postgres

_ROUNDS = 3


@pytest.fixture(
    scope="module",
    params=["sqlite, one process", "sqlite, two processes", "postgres, two processes"],
)
def servers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Generator[Serving]:
    """The servers, started once for all tests of the file."""
    engine, _, processes = request.param.partition(", ")
    with ExitStack() as stack:
        url = "sqlite:///authorization.db"
        if engine == "postgres":
            url = stack.enter_context(postgres.database())
        workers = 1 if processes == "one process" else 2
        yield stack.enter_context(serving(tmp_path_factory.mktemp("once"), url, workers=workers))


def test_a_code_is_redeemed_once_and_its_replay_ends_the_grant(servers: Serving) -> None:
    for _ in range(_ROUNDS):
        code = servers.code()
        answers = together(lambda code=code: servers.redeem(code))  # type: ignore[misc]
        won = [answer.json() for answer in answers if answer.status_code == 200]
        lost = [answer for answer in answers if answer.status_code != 200]
        assert len(won) == 1
        assert {answer.json()["error"] for answer in lost} == {"invalid_grant"}
        # The sixty-three others were replays: what the winner got has ended.
        token = won[0]["refresh_token"]
        assert servers.refresh(token, "printer").json()["error"] == "invalid_grant"


def test_a_refresh_token_has_one_successor(servers: Serving) -> None:
    token = servers.redeem(servers.code("phone"), "phone").json()["refresh_token"]
    for _ in range(_ROUNDS):
        answers = together(lambda token=token: servers.refresh(token))  # type: ignore[misc]
        assert {answer.status_code for answer in answers} == {200}
        successors = {answer.json()["refresh_token"] for answer in answers}
        assert len(successors) == 1
        assert len({answer.json()["access_token"] for answer in answers}) == 64
        (token,) = successors
    assert servers.refresh(token).status_code == 200


def test_every_worker_handles_requests(servers: Serving) -> None:
    workers = servers.workers()
    before = cpu_seconds(workers)
    for _ in range(_ROUNDS):
        together(lambda: servers.ask(grant_type="client_credentials"))
    worked = [after - start for start, after in zip(before, cpu_seconds(workers), strict=True)]
    assert all(seconds > 0 for seconds in worked), worked
