"""The clock and randomness of the system, and modules that load at first use."""

import subprocess
import sys
import time

import pytest

from valetkey.kernel.runtime import SYSTEM, import_lazily


def test_system_clock_returns_the_current_time_in_whole_seconds() -> None:
    before = int(time.time())
    now = SYSTEM.now()
    assert type(now) is int
    assert before <= now <= time.time()


def test_random_bytes_have_the_requested_size_and_never_repeat() -> None:
    assert [len(SYSTEM.random(size)) for size in (0, 1, 32)] == [0, 1, 32]
    assert len({SYSTEM.random(16) for _ in range(100)}) == 100


def test_a_module_is_loaded_when_it_is_first_used() -> None:
    program = (
        "import sys; from valetkey.kernel.runtime import import_lazily as load;"
        "calendar = load('calendar');"
        "print('calendar' in sys.modules, calendar.isleap(2000), 'calendar' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False True True\n"


def test_missing_attribute_of_a_lazy_module_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nothing"):
        _ = import_lazily("calendar").nothing
