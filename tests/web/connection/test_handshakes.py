"""New TLS connections on both event loops: every first request is read and answered at once."""

from pathlib import Path

from tests.web.model.handshakes import run

CONNECTIONS = 400


def test_first_requests_over_tls_are_answered_at_once(tmp_path: Path) -> None:
    found = run(CONNECTIONS, tmp_path)
    assert len(found) == CONNECTIONS
    assert [each for each in found if not each.is_good] == []
