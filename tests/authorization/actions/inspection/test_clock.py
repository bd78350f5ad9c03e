"""The check of the machine's clock: what the kernel says, and nothing where it says nothing."""

import platform
import subprocess
import sys

import pytest

from valetkey.authorization.actions.inspection import machine
from valetkey.config.settings import Settings
from valetkey.kernel.moment import Instant

# The same system call without the C library: (number, size of `struct timex`) by machine.
_DIRECT = """
import ctypes, struct, sys
timex = ctypes.create_string_buffer(512)
libc = ctypes.CDLL(None, use_errno=True)
done = libc.syscall(int(sys.argv[1]), timex)
print(None if done == -1 else struct.unpack_from("=IxxxxqqqqI", timex)[5])
"""
_NUMBERS = {"x86_64": "159", "aarch64": "171"}


def _found() -> list[tuple[str, str]]:
    findings = machine.clock(Settings(), Instant(0))
    return [(finding.condition.name, finding.level.value) for finding in findings]


def test_kernel_status_equals_that_of_a_direct_call() -> None:
    number = _NUMBERS[platform.machine()]
    command = [sys.executable, "-c", _DIRECT, number]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    # The other bits may change between the two calls.
    status = machine.kernel_status()
    if done.stdout.strip() == "None":
        assert status is None
    else:
        assert status is not None
        assert status & 0x40 == int(done.stdout) & 0x40


def test_clock_without_time_service_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    # STA_PLL and STA_NANO stay set after a time service has ended.
    for status, name, level in (
        (0x2001, "clock_synchronized", "ok"),
        (0x2041, "clock_free", "warning"),
    ):
        monkeypatch.setattr(machine, "kernel_status", lambda status=status: status)
        assert _found() == [(name, level)]


def test_unavailable_clock_status_gives_no_finding(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Denied:
        def adjtimex(self, _: object) -> int:
            return -1

    def denied(_: object) -> Denied:
        return Denied()

    with monkeypatch.context() as container:
        container.setattr("ctypes.CDLL", denied)
        assert _found() == []
    monkeypatch.setattr(sys, "platform", "darwin")
    assert _found() == []
