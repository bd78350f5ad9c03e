"""What a restore must not undo, and the file that notes it."""

import inspect
import re
from pathlib import Path

from tests.support.harness import ADA, Harness, run
from valetkey.authorization.features import EVENTS
from valetkey.authorization.model.event.accounts import RecoveryCodeUsed
from valetkey.authorization.storage.restoration import LoggedRevocation, Restoration, RevocationLog
from valetkey.kernel.moment import Instant


def _ending(number: int) -> LoggedRevocation:
    return LoggedRevocation(
        f"ev_{number}", Instant(number), "client.disabled", None, f"printer{number}"
    )


def test_truncated_last_line_of_the_log_loses_no_other_line(tmp_path: Path) -> None:
    file = tmp_path / "endings"
    RevocationLog(file).append([_ending(1), _ending(2)])
    whole = file.read_bytes()
    cut_off = range(len(whole.rstrip().rpartition(b"\n")[0]) + 1, len(whole))
    for length in cut_off:
        file.write_bytes(whole[:length])
        again = RevocationLog(file)
        assert again.all == [_ending(1)]
        again.append([_ending(2), _ending(3)])
        assert RevocationLog(file).all == [_ending(1), _ending(2), _ending(3)]


def test_every_event_name_in_the_revocations_query_exists() -> None:
    names = re.findall(r"'([a-z_]+\.[a-z]+)'", inspect.getsource(Restoration.revocations))
    assert len(names) > 20
    assert set(names) <= {event.name for event in EVENTS}


def test_used_recovery_code_is_in_the_revocations(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        now = it.clock.now
        await it.write(lambda tx: tx.events.add(RecoveryCodeUsed(ADA, 9), now))
        page = await it.read(lambda tx: tx.restoration.revocations(Instant(0), "", 100))
        assert ("recovery_code.used", ADA) in [(event.name, event.uid) for event in page.found]

    run(tmp_path, story)
