"""Supervision: order, readiness, restarts, and that nothing is left behind."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from tests.support.processes import children, is_alive
from tests.support.wait import CEILING, wait_until

PARENT = Path(__file__).with_name("stand_in_parent.py")


def eventually(question: Callable[[], bool], what: str) -> None:
    wait_until(question, what)


def lines(log: Path) -> list[list[str]]:
    text = log.read_text(encoding="utf-8") if log.exists() else ""
    return [line.split(" ", 2) for line in text.splitlines()]


def pids(log: Path, message: str) -> list[int]:
    return [int(line[1]) for line in lines(log) if line[2] == message]


def errors(log: Path) -> Path:
    return log.with_suffix(".errors")


@contextmanager
def supervising(log: Path, *servers: str) -> Generator[subprocess.Popen[str]]:
    with (
        errors(log).open("w", encoding="utf-8") as error_file,
        subprocess.Popen(
            [sys.executable, str(PARENT), str(log), *servers],
            stdout=subprocess.PIPE,
            stderr=error_file,
            text=True,
        ) as parent,
    ):
        try:
            yield parent
        finally:
            if parent.poll() is None:
                parent.kill()
            parent.wait(60)


def ready_line(parent: subprocess.Popen[str]) -> str:
    assert parent.stdout is not None
    return parent.stdout.readline()


def test_ready_is_printed_once_when_every_child_is_ready(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with supervising(log, "authorization=good=2", "resource=fine=1") as parent:
        assert ready_line(parent) == "ready\n"
        assert len(pids(log, "ready")) == 3
        parent.terminate()
        assert parent.wait(60) == 0
        assert parent.stdout is not None
        assert parent.stdout.read() == ""
    assert not any(is_alive(pid) for pid in pids(log, "born"))


def test_first_child_of_each_server_prepares_before_the_others_start(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with supervising(log, "authorization=good=2", "resource=fine=2") as parent:
        ready_line(parent)
    messages = [(line[0], line[2]) for line in lines(log) if line[2].startswith("go")]
    assert messages[0] == ("good", "go 0 prepare")
    assert sorted(messages) == [
        ("fine", "go 0 prepare"),
        ("fine", "go 1"),
        ("good", "go 0 prepare"),
        ("good", "go 1"),
    ]
    assert messages.index(("fine", "go 0 prepare")) < messages.index(("fine", "go 1"))


def test_on_one_core_the_second_server_is_started_after_the_first_is_ready(tmp_path: Path) -> None:
    log = tmp_path / "log"
    cores = os.sched_getaffinity(0)
    # Inherited by the parent, which looks at how many it may use.
    os.sched_setaffinity(0, {min(cores)})
    try:
        with supervising(log, "authorization=good=2", "resource=fine=1") as parent:
            assert ready_line(parent) == "ready\n"
    finally:
        os.sched_setaffinity(0, cores)
    messages = [(line[0], line[2]) for line in lines(log)]
    born = messages.index(("fine", "born"))
    assert messages[:born].count(("good", "ready")) == 2


def test_child_that_dies_is_replaced_without_a_second_ready_line(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with supervising(log, "authorization=good=1") as parent:
        ready_line(parent)
        for deaths in (1, 2, 3):
            os.kill(pids(log, "ready")[-1], signal.SIGKILL)
            eventually(lambda: len(pids(log, "ready")) > deaths, "no new child")  # noqa: B023
        assert is_alive(pids(log, "ready")[-1])
        parent.terminate()
        assert parent.wait(60) == 0
        assert parent.stdout is not None
        assert parent.stdout.read() == ""


def test_failed_start_ends_all_children_with_the_exit_code_of_the_child(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with supervising(log, "authorization=good=1", "resource=broken=1") as parent:
        assert parent.wait(60) == 2
        assert ready_line(parent) == ""
    assert not any(is_alive(pid) for pid in pids(log, "born"))


def test_a_child_that_will_not_stop_is_killed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with supervising(log, "authorization=stubborn=1") as parent:
        ready_line(parent)
        parent.send_signal(signal.SIGINT)
        assert parent.wait(60) == 0
    assert not any(is_alive(pid) for pid in pids(log, "born"))


def test_children_exit_when_the_parent_is_killed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with supervising(log, "authorization=good=2", "resource=stubborn=1") as parent:
        ready_line(parent)
        parent.kill()
        eventually(lambda: not any(is_alive(pid) for pid in pids(log, "born")), "orphans are alive")
    assert len(pids(log, "orphaned")) == 3


def test_reload_replaces_worker_that_was_starting(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with supervising(log, "authorization=held=1") as parent:
        assert ready_line(parent) == "ready\n"
        hold, checked = tmp_path / "log.hold", tmp_path / "log.checked"
        hold.touch()
        os.kill(pids(log, "ready")[-1], signal.SIGKILL)
        eventually(lambda: len(pids(log, "go 0 prepare")) == 2, "no new child")
        parent.send_signal(signal.SIGHUP)
        eventually(checked.exists, "nothing was checked")
        # It may have read the configuration before the change.
        assert len(pids(log, "born")) == 2
        hold.unlink()
        eventually(lambda: len(pids(log, "ready")) == 3, "the old configuration stays in use")


def test_supervisor_survives_fork_server_that_cannot_start(tmp_path: Path) -> None:
    log, program = tmp_path / "log", tmp_path / "log.program"
    with supervising(log, "authorization=good=1") as parent:
        assert ready_line(parent) == "ready\n"
        worker = pids(log, "ready")[-1]
        forker = next(pid for pid in children(parent.pid) if pid != worker)
        away = program.rename(tmp_path / "away")
        os.kill(forker, signal.SIGKILL)
        eventually(lambda: not is_alive(forker), "the fork server is alive")
        os.kill(worker, signal.SIGKILL)

        def tried_again() -> bool:
            assert parent.poll() is None
            return errors(log).read_text(encoding="utf-8").count("worker.restarting") > 2

        eventually(tried_again, "it is not tried again")
        assert '"signal":"SIGKILL"' in errors(log).read_text(encoding="utf-8")
        away.rename(program)
        eventually(lambda: len(pids(log, "ready")) == 2, "nothing is started")


def test_clients_receive_503_with_retry_after_while_no_worker_starts(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with supervising(log, "authorization=frail=1") as parent:
        assert ready_line(parent) == "ready\n"
        port = next(line[2].split()[1] for line in lines(log) if line[2].startswith("port"))
        os.kill(pids(log, "ready")[-1], signal.SIGKILL)
        # It waits until the supervisor accepts it, and is answered.
        with socket.create_connection(("127.0.0.1", int(port)), CEILING) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            answer = client.makefile("rb").read()
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"\r\nRetry-After: 1\r\n" in answer
        # The supervisor starts it again and again, ever more slowly.
        eventually(lambda: len(pids(log, "born")) > 4, "nobody is started again")
        assert parent.poll() is None
