"""E09: how long a token works after its end was answered: at two nodes, and at the API."""

import random
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import requests

from bench.ports import free_port
from tests.reliability.nodes import Node, configure, register, stopped_in_the_end
from tests.reliability.outcome import Outcome, percentile
from tests.reliability.relay import relaying
from tests.stories.processes.races import administrator
from tests.stories.processes.serving import PASSWORD, SECRET
from tests.support import postgres
from tests.support.wait import CEILING, wait_until

_LONGEST = 5.0
_USUAL = 2.0
_GIVEN_UP = 30.0  # seconds after which a token is taken to work for ever
_PAUSE = 0.01  # between two requests: how exact a figure is
_ENOUGH = 10  # rounds, below which the machine may be busy with other tests
_APP = {"client_id": "printer", "client_secret": SECRET}


@dataclass
class _Site:
    """Two nodes of one authorization server, and a resource server beside the first."""

    nodes: Sequence[str]
    host: str
    api: str
    admin: str
    credential: str
    """Of the resource server, which may introspect every token of its API."""

    def post(self, node: str, path: str, form: Mapping[str, str]) -> Mapping[str, str]:
        """What a node answers to a form; nothing unless it is 200."""
        headers = {"Host": self.host}
        answer = requests.post(f"http://{node}{path}", form, headers=headers, timeout=CEILING)
        document: Mapping[str, str] = answer.json() if answer.content and answer.ok else {}
        return document

    def change(self, path: str) -> None:
        """A change by the admin API of the second node."""
        headers = {"Host": self.host, "Authorization": f"Bearer {self.admin}"}
        url = f"http://{self.nodes[1]}/admin/api/v1{path}"
        requests.post(url, headers=headers, timeout=CEILING).raise_for_status()

    def works(self, address: str, token: str) -> bool:
        """Whether the token is good at a node or at the API."""
        if address == self.api:
            bearer = {"Authorization": f"Bearer {token}"}
            answer = requests.get(f"http://{address}/v2/notes", headers=bearer, timeout=CEILING)
            return answer.ok
        form = {"token": token, "client_id": "resource-server", "client_secret": self.credential}
        return bool(self.post(address, "/oauth/introspect", form).get("active"))

    def fresh(self) -> Mapping[str, str]:
        """New tokens that work everywhere; not in the second in which others of theirs ended."""
        form = {"grant_type": "password", "username": "ada", "password": PASSWORD, **_APP}
        return wait_until(lambda: self._good(self.post(self.nodes[1], "/oauth/token", form)))

    def _good(self, tokens: Mapping[str, str]) -> Mapping[str, str]:
        places = (*self.nodes, self.api)
        good = tokens and all(self.works(address, tokens["access_token"]) for address in places)
        return tokens if good else {}


def _revoke(site: _Site, token: str) -> None:
    site.post(site.nodes[1], "/oauth/revoke", {"token": token, **_APP})


_ENDINGS: tuple[tuple[Callable[[_Site, Mapping[str, str]], None], Sequence[str]], ...] = (
    (lambda site, tokens: _revoke(site, tokens["access_token"]), ()),
    (lambda site, tokens: _revoke(site, tokens["refresh_token"]), ()),
    (lambda site, _: site.change("/users/1001/disable"), ("/users/1001/enable",)),
    (lambda site, _: site.change("/clients/printer/disable"), ("/clients/printer/enable",)),
)
"""What ends a token, and what undoes it for the next ones."""


def revocation_everywhere(folder: Path, times: int, chance: random.Random) -> Outcome:
    """End tokens at the second node, each in every way; the API follows the first one."""
    return _revocation(folder, times, cut=False)


def revocation_without_stream(folder: Path, times: int, chance: random.Random) -> Outcome:
    """The same while the event stream from the first node to the API delivers nothing."""
    return _revocation(folder, times, cut=True)


def _revocation(folder: Path, times: int, *, cut: bool) -> Outcome:
    listens = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    api = f"127.0.0.1:{free_port()}"
    nodes = [Node(folder / "first"), Node(folder / "second")]
    resource = Node(folder / "first", server="resource")
    took: list[float] = []
    with postgres.database() as url, relaying(listens[0], cut=cut) as relay:
        for node, listen in zip(nodes, listens, strict=True):
            more = f'[resource]\nurl = "http://{api}"\nlisten = "{api}"\n'
            issuer = f"http://{relay.address}"
            configure(node.here, url=issuer, listen=listen, database=url, more=more)
        register(nodes[0].here)
        admin = administrator(nodes[0].here)
        for name in ("valetkey.keyring", "authorization.last-seen"):
            with suppress(FileNotFoundError):
                shutil.copy2(nodes[0].here / name, nodes[1].here / name)
        with stopped_in_the_end(*nodes, resource), ThreadPoolExecutor(3) as threads:
            for node in (*nodes, resource):
                node.start()
            (file,) = nodes[0].here.rglob("resource-server.credential")
            site = _Site(listens, relay.address, api, admin, file.read_text().strip())
            for end, undo in _ENDINGS * times:
                tokens = site.fresh()
                end(site, tokens)
                ended = partial(_ended, site, tokens["access_token"], time.monotonic())
                took += threads.map(ended, (*listens, api))
                if max(took) >= _GIVEN_UP:
                    break
                for path in undo:
                    site.change(path)
        # Otherwise the API would follow in a way that this does not cut.
        assert bool(relay.withheld) is cut
    count = len(took) // 3
    took.sort()
    late = percentile(took, 0.99)
    usual = _LONGEST if cut else _USUAL
    held = took[-1] <= _LONGEST and late <= usual if times >= _ENOUGH else took[-1] < _GIVEN_UP
    counts = (
        f"{count} tokens, grants, users and clients ended at one of two nodes; "
        f"refused by both and by the API after {took[len(took) // 2]:.2f} s (median), {late:.2f} s "
        f"(p99), {took[-1]:.2f} s (longest)"
    )
    if cut:
        counts += f"; {relay.withheld} event streams opened, none delivered anything"
    return Outcome(
        f"E09 revocation everywhere{', event stream cut' if cut else ''}",
        "refused within 5 s" if cut else "refused within 5 s, within 2 s at p99",
        counts,
        held,
    )


def _ended(site: _Site, token: str, began: float, address: str) -> float:
    """Seconds until the first refusal."""
    while site.works(address, token) and time.monotonic() - began < _GIVEN_UP:
        time.sleep(_PAUSE)
    return time.monotonic() - began
