"""New TLS connections on both event loops: every first request is read and answered at once."""

from pathlib import Path

from tests.web.model.handshakes import run

CONNECTIONS = 400


def test_first_requests_over_tls_are_answered_at_once(tmp_path: Path) -> None:
    connections = run(CONNECTIONS, tmp_path)
    assert len(connections) == CONNECTIONS
    assert [connection for connection in connections if not connection.is_good] == []
