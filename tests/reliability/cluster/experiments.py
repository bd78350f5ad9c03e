"""E41: faults of a cluster that elects its own primary, under load, with a checked history."""

import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import requests

from tests.reliability.acknowledged.journal import (
    Client,
    Redeeming,
    Refreshing,
    Verdict,
    acting,
    clients,
    wait_for_actions,
)
from tests.reliability.cluster.faults import FAULTS, Fault
from tests.reliability.cluster.machines import Cluster, cluster
from tests.reliability.history import Findings, History, Kind, check
from tests.reliability.nodes import DRAIN
from tests.reliability.outcome import Outcome, percentile
from tests.stories.processes.serving import REGISTER
from tests.support.wait import wait_until
from valetkey.testing.browser import UserAgent

_WITNESSES = 3
PAUSE = 0.05  # seconds before each action: clients, nodes and databases share the cores
BEFORE = 5  # acknowledged actions of each client before a fault
_SOME = 40  # tokens of each state that a witness goes on asking for
_LONGEST = 15.0  # seconds without service, 95th percentile
_LONGEST_LOST = 35.0  # if a machine is lost: Patroni waits 20 s before it replaces a primary
# HAProxy's own 503, while no node is ready, has no Retry-After.
_REFUSED = ("502", "503", "503 without Retry-After", "504")
_FINE = {"200", "302", "303", "400", *_REFUSED}
_LOST = {"ConnectionError", "RemoteDisconnected", "ConnectionResetError", "ConnectionRefusedError"}


class Witness(Redeeming):
    """Gets tokens, ends every second one, and goes on asking whether they are accepted."""

    def __init__(self, url: str, api: str, person: UserAgent, history: History) -> None:
        """Ask the authorization server at `url` and the resource server at `api`."""
        super().__init__(url, person)
        self._api = api
        self._history = history
        self._chance = random.Random(id(self))
        self._requests = requests.Session()
        self._kept: list[str] = []
        self._ended: list[str] = []
        self._ends = False

    def act(self) -> bool:
        """Issue, end every second one, and look at this and at earlier ones."""
        for tokens in (self._kept, self._ended):
            if tokens:
                self.look(self._chance.choice(tokens[-_SOME:]))
        if not (code := self.code()):
            return False
        began = time.monotonic()
        got = self.redeem(code)
        token = got["access_token"] if got else ""
        self._history.add(Kind.ISSUE, code, began, True if got else None, token)
        if got is None:
            return False
        self.look(token)
        self._ends = not self._ends
        if not self._ends:
            self._kept.append(token)
            return True
        began = time.monotonic()
        answer = self.ask("revoke", token=got["refresh_token"])
        done = answer is not None and answer.status_code == requests.codes.ok
        self._history.add(Kind.REVOKE, token, began, True if done else None)
        self._ended.append(token)
        self.look(token)
        return done

    def look(self, token: str) -> None:
        """Ask one of the servers whether the token is accepted."""
        began = time.monotonic()
        outcome, server = None, "introspection"
        if self._chance.random() < 0.5:
            answer = self.ask("introspect", token=token)
            if answer is not None and answer.status_code == requests.codes.ok:
                outcome = bool(answer.json()["active"])
        else:
            outcome, server = self._accepted(token), "the API"
        self._history.add(Kind.READ, token, began, outcome, place=server)

    def _accepted(self, token: str) -> bool | None:
        bearer = {"Authorization": f"Bearer {token}"}
        try:
            answer = self._requests.get(f"{self._api}/v2/notes", headers=bearer, timeout=60)
        except requests.RequestException:
            return None
        outcomes: Mapping[int, bool] = {200: True, 401: False}
        return outcomes.get(answer.status_code)


def _experiment(name: str) -> Callable[[Path, int, random.Random], Outcome]:
    """Return the experiment of a fault."""
    fault = FAULTS[name]

    def experiment(folder: Path, times: int, chance: random.Random) -> Outcome:
        return _run(fault, times)

    experiment.__name__ = f"cluster_{name}"
    experiment.__doc__ = f"{fault.title}, `times`."
    return experiment


def _run(fault: Fault, times: int) -> Outcome:
    verdict, findings, pauses = _rounds(fault, times, synchronous=True)
    wrong = set(verdict.answers) - _FINE - _LOST
    late = percentile(pauses, 0.95)
    limit = _LONGEST_LOST if fault.loses_machine else _LONGEST
    held = verdict.is_good and findings.is_good and late < limit and not wrong
    return Outcome(
        f"E41 three machines, {fault.title}",
        "nothing acknowledged is lost, no code works twice, no token works 5 s after its "
        f"revocation, service within {limit:.0f} s at p95",
        _counts(times, verdict, findings, pauses) + (f"; others: {sorted(wrong)}" if wrong else ""),
        held,
    )


def _rounds(
    fault: Fault, times: int, *, synchronous: bool
) -> tuple[Verdict, Findings, Sequence[float]]:
    """Do it to a new cluster under load; return what was found, and the longest pauses."""
    verdict, history = Verdict(), History()
    pauses: list[float] = []
    with cluster(namespaces=fault.namespaces, synchronous=synchronous, disk=fault.disk) as made:
        these = begin(made, history)
        if not synchronous:
            # After a rotation that was lost, one that refreshes its grant can never act again.
            these = [client for client in these if not isinstance(client, Refreshing)]
        for number in range(times):
            with acting(these, pause=PAUSE):
                wait_for_actions(these, BEFORE)
                began = time.monotonic()
                fault.run(made, number)
                wait_for_actions(these, BEFORE)
                pauses.append(_longest_pause(these, began))
            wait_until(made.is_whole, "the cluster does not become whole", every=0.2)
            verdict.judge(these)
        look_at_all(these, history)
    return verdict, check(history.operations), pauses


def begin(made: Cluster, history: History) -> Sequence[Client]:
    """Start both nodes; return the clients of the other experiments, and witnesses."""
    for node in made.nodes:
        node.drain = 2 * DRAIN
    made.start_nodes(_REGISTER)
    these = clients(made.url)
    person = next(client.person for client in these if isinstance(client, Redeeming))
    witnesses = [Witness(made.url, made.api, person, history) for _ in range(_WITNESSES)]
    return [*these, *witnesses]


_REGISTER = REGISTER.replace('id = "printer"', 'id = "printer"\nrotates_refresh_token = true')


def _longest_pause(these: Sequence[Client], began: float) -> float:
    """Return the longest time after `began` in which a client had no action acknowledged."""
    longest = 0.0
    for client in these:
        times = [began, *(moment for moment in client.done if moment > began)]
        gaps = [later - earlier for earlier, later in pairwise(times)]
        longest = max(longest, *gaps)
    return longest


def look_at_all(these: Sequence[Client], history: History) -> None:
    """Ask once more for every token, after all that happened."""
    witness = next(client for client in these if isinstance(client, Witness))
    for token in {operation.token for operation in history.operations if operation.token}:
        witness.look(token)


def _counts(times: int, verdict: Verdict, findings: Findings, pauses: Sequence[float]) -> str:
    middle, late = percentile(pauses, 0.5), percentile(pauses, 0.95)
    answers: Counter[str] = verdict.answers
    refused = sum(answers[status] for status in _REFUSED)
    lost = sum(answers[name] for name in _LOST)
    return (
        f"{times} times; {verdict}; {findings}; longest pause {middle:.1f} s (median), {late:.1f} "
        f"s (p95); {answers.total()} requests, {refused} answers 502 to 504, {lost} without answer"
    )


def cluster_asynchronous(folder: Path, times: int, chance: random.Random) -> Outcome:
    """Kill -9 of PostgreSQL with commits that wait for no standby: what is lost."""
    verdict, findings, _ = _rounds(FAULTS["kill"], times, synchronous=False)
    return Outcome(
        "E41 three machines, kill -9 of PostgreSQL, asynchronous",
        "the count of what is lost if commits wait for no standby",
        f"{times} times; {verdict}; {findings}",
        findings.checked > 0,
    )


CLUSTER: Mapping[Callable[[Path, int, random.Random], Outcome], tuple[int, int]] = {
    _experiment("kill"): (1, 20),
    **{_experiment(name): (0, 20) for name in FAULTS if name != "kill"},
    cluster_asynchronous: (0, 20),
}
"""Each experiment, how often in the tests and how often in `make reliability`."""
