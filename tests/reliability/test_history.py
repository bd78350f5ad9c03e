"""The checker of histories: what it must find, and what it must not."""

import shutil
import time
from pathlib import Path

import pytest
import requests

from bench.ports import free_port
from tests.reliability.history import History, Kind, Operation, check
from tests.reliability.nodes import Node, configure, register, stopped_in_the_end
from tests.stories.processes.serving import PASSWORD, SECRET
from tests.support.wait import CEILING

_ISSUED = Operation(Kind.ISSUE, "code", 0, 1, True, "token")
_REVOKED = Operation(Kind.REVOKE, "token", 10, 11, True)
_UNKNOWN = Operation(Kind.REVOKE, "token", 10, 11, None)


def _read(began: float, ended: float, outcome: bool | None) -> Operation:
    return Operation(Kind.READ, "token", began, ended, outcome)


@pytest.mark.parametrize(
    "operations",
    [
        pytest.param([_ISSUED, _read(2, 3, True)], id="accepted"),
        pytest.param([_ISSUED, _read(0.5, 3, False)], id="asked before the issue was answered"),
        pytest.param([_ISSUED, _REVOKED, _read(15.9, 20, True)], id="within the promise"),
        pytest.param([_ISSUED, _REVOKED, _read(9, 12, False)], id="beside the revocation"),
        pytest.param([_ISSUED, _UNKNOWN, _read(60, 61, True)], id="never revoked, perhaps"),
        pytest.param([_ISSUED, _UNKNOWN, _read(60, 61, False)], id="revoked, perhaps"),
        pytest.param([_ISSUED, _REVOKED, _read(60, 61, None)], id="no answer"),
    ],
)
def test_history_allowed_by_the_model_is_no_violation(operations: list[Operation]) -> None:
    findings = check(operations)
    assert findings.is_good, findings


@pytest.mark.parametrize(
    ("operations", "kind"),
    [
        pytest.param([_ISSUED, _REVOKED, _read(16.1, 17, True)], "stale", id="stale"),
        pytest.param(
            [_ISSUED, _UNKNOWN, _read(12, 13, False), _read(18.1, 19, True)],
            "resurrected",
            id="resurrected",
        ),
        pytest.param([_ISSUED, _read(2, 3, False)], "lost", id="lost"),
        pytest.param(
            [_ISSUED, _read(2, 9, False), _REVOKED], "lost", id="lost before it was asked"
        ),
        pytest.param(
            [_ISSUED, Operation(Kind.ISSUE, "code", 2, 3, True, "second")], "twice", id="twice"
        ),
    ],
)
def test_each_violation_is_found(operations: list[Operation], kind: str) -> None:
    for order in (operations, operations[::-1]):
        findings = check(order)
        assert not findings.is_good
        assert len(getattr(findings, kind)) == 1, findings


def test_empty_history_does_not_pass_the_check() -> None:
    assert not check([]).is_good


def test_stale_answer_of_an_outdated_replica_is_detected(tmp_path: Path) -> None:
    """Two real servers with one URL: the second one answers from a copy made before."""
    listens = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    url = f"http://{listens[0]}"
    nodes = [Node(tmp_path / "primary"), Node(tmp_path / "replica")]
    configure(nodes[0].here, url=url, listen=listens[0], database="sqlite:///a/auth.db")
    register(nodes[0].here)
    with stopped_in_the_end(nodes[0]):
        nodes[0].start()
        token = _token(url)
    shutil.copytree(nodes[0].here, nodes[1].here)
    file = nodes[1].here / "valetkey.toml"
    file.write_text(
        file.read_text().replace(f'listen = "{listens[0]}"', f'listen = "{listens[1]}"')
    )
    with stopped_in_the_end(*nodes):
        for node in nodes:
            node.start()
        honest, seeded = History(), History()
        for history, places in ((honest, listens[:1]), (seeded, listens)):
            history.operations.append(Operation(Kind.ISSUE, "a code", 0, 1, True, token))
            for address in places:
                _look(history, listens[0], address, token)
        began = time.monotonic()
        answer = _post(listens[0], listens[0], "revoke", token)
        for history in (honest, seeded):
            history.add(Kind.REVOKE, token, began, answer.ok)
        for history, places in ((honest, listens[:1]), (seeded, listens)):
            for address in places:
                _look(history, listens[0], address, token)
    # Without the 5 seconds of other servers: the database that was asked has the revocation.
    assert check(honest.operations, promise=0).is_good
    findings = check(seeded.operations, promise=0)
    assert len(findings.stale) == 1
    assert listens[1] in findings.stale[0]


def _look(history: History, host: str, address: str, token: str) -> None:
    began = time.monotonic()
    active = _post(host, address, "introspect", token).json()["active"]
    history.add(Kind.READ, token, began, active, place=address)


def _post(host: str, address: str, path: str, token: str) -> requests.Response:
    form = {"token": token, "client_id": "printer", "client_secret": SECRET}
    headers = {"Host": host}
    return requests.post(f"http://{address}/oauth/{path}", form, headers=headers, timeout=CEILING)


def _token(url: str) -> str:
    form = {
        "grant_type": "password",
        "username": "ada",
        "password": PASSWORD,
        "client_id": "printer",
        "client_secret": SECRET,
    }
    answer = requests.post(f"{url}/oauth/token", form, timeout=CEILING)
    token: str = answer.json()["access_token"]
    return token
