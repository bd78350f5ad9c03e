"""E14: strangers begin and abandon what they like; nothing of it may pile up."""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from resource import getpagesize
from urllib.parse import quote

from bench.ports import free_port
from tests.reliability.floods.flood import address, answers, request
from tests.reliability.nodes import Node, configure, register, stopped_in_the_end
from tests.reliability.outcome import Outcome
from tests.stories.processes.serving import CALLBACK, CHALLENGE, Serving

_BATCH = 100
_PAGE = getpagesize()
_AT_ONCE = 4
_MOST_STORED = 50 * 1024 * 1024
_MOST_LOGGED = 64 * 1024 * 1024
_MOST_GROWTH = 16 * 1024 * 1024
"""Bytes by which both workers together may grow once they are warm."""

_WARM = 0.3
"""The share of requests after which the memory is measured for the first time."""

_TELEVISION = """
[[clients]]
client_id = "television"
name = "Television"
type = "public"
grant_types = ["urn:ietf:params:oauth:grant-type:device_code"]
scopes = ["notes:read"]
"""
_AUTHORIZE = (
    f"/oauth/authorize?response_type=code&redirect_uri={quote(CALLBACK, safe='')}&scope=notes:read"
    f"&code_challenge={CHALLENGE}&code_challenge_method=S256&client_id="
)
# 303: on to the sign-in page. 400 and 401: an unknown app. 429: enough device codes.
_FINE = {"200", "303", "400", "401", "429"}


@dataclass
class _Watch:
    """The largest sizes seen, while a thread looks twice a second."""

    node: Node
    most_stored: int = 0
    most_logged: int = 0
    most_used: int = 0
    _over: threading.Event = field(default_factory=threading.Event)

    def look(self) -> None:
        """Measure until `end`."""
        while not self._over.wait(0.5):
            database = self.node.here / "a/auth.db"
            self.most_stored = max(self.most_stored, database.stat().st_size)
            log = database.with_name("auth.db-wal")
            self.most_logged = max(self.most_logged, log.stat().st_size)
            self.most_used = max(self.most_used, used(self.node.workers()))

    def end(self) -> None:
        """Stop measuring."""
        self._over.set()


def anonymous_growth(folder: Path, times: int, chance: random.Random) -> Outcome:
    """Begin `times` authorizations, sign-ins and devices, by registered and by unknown apps."""
    host = f"127.0.0.1:{free_port()}"
    node = Node(folder / "node")
    node.environment = {"VALETKEY__AUTHORIZATION__WORKERS": "2"}
    configure(node.here, url=f"http://{host}", listen=host, database="sqlite:///a/auth.db")
    register(node.here, _TELEVISION)
    watch = _Watch(node)
    statuses: Counter[str] = Counter()
    with stopped_in_the_end(node):
        node.start()
        assert node.process is not None
        watching = threading.Thread(target=watch.look)
        watching.start()
        began = time.monotonic()
        try:
            statuses += _abandoned(host, int(times * _WARM), chance)
            warm = used(node.workers())
            statuses += _abandoned(host, times - statuses.total(), chance)
        finally:
            watch.end()
            watching.join()
        took = time.monotonic() - began
        grown = watch.most_used - warm
        site = Serving(f"http://{host}", "", node.process)
        signed_in = site.redeem(site.code()).ok
    held = (
        signed_in
        and set(statuses) <= _FINE
        and statuses.total() == times
        and watch.most_stored < _MOST_STORED
        and watch.most_logged < _MOST_LOGGED
        and grown < _MOST_GROWTH
    )
    summary = ", ".join(f"{count} × {status}" for status, count in sorted(statuses.items()))
    counts = (
        f"{statuses.total()} starts from {-(-times // _BATCH)} addresses ({summary}) in "
        f"{took:.0f} s; database {watch.most_stored / 2**20:.0f} MiB and its log "
        f"{watch.most_logged / 2**20:.0f} MiB at most, two workers "
        f"{warm / 2**20:.0f} MiB when warm and {grown / 2**20:+.0f} MiB at most afterwards; "
        f"sign-in {'works' if signed_in else 'fails'}"
    )
    promise = "database below 50 MiB, its log below 64 MiB, memory flat, users can sign in"
    return Outcome("E14 anonymous growth", promise, counts, held)


def _abandoned(host: str, times: int, chance: random.Random) -> Counter[str]:
    """Begin `times` of them, over several connections at once."""
    sizes = [min(_BATCH, times - begun) for begun in range(0, times, _BATCH)]
    seeds = [chance.getrandbits(32) for _ in sizes]
    statuses: Counter[str] = Counter()
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        for one in threads.map(partial(_batch, host), sizes, seeds):
            statuses += one
    return statuses


def _batch(host: str, size: int, seed: int) -> Counter[str]:
    chance = random.Random(seed)
    kinds = chance.choices(_KINDS, k=size)
    return answers(host, [kind(host, chance) for kind in kinds], address(chance))


def _authorization(host: str, chance: random.Random) -> bytes:
    return request(host, f"GET {_AUTHORIZE}printer&state={chance.getrandbits(64):x}")


def _unknown_app(host: str, chance: random.Random) -> bytes:
    return request(host, f"GET {_AUTHORIZE}{chance.getrandbits(64):x}")


def _unknown_client(host: str, chance: random.Random) -> bytes:
    body = f"grant_type=client_credentials&client_id={chance.getrandbits(64):x}&client_secret=x"
    return request(host, "POST /oauth/token", body)


def _sign_in(host: str, chance: random.Random) -> bytes:
    return request(host, "GET /oauth/sign-in")


def _device(host: str, chance: random.Random) -> bytes:
    return request(host, "POST /oauth/device-authorization", "client_id=television")


_KINDS: Sequence[Callable[[str, random.Random], bytes]] = (
    _authorization,
    _unknown_app,
    _unknown_client,
    _sign_in,
    _device,
)


def used(pids: Sequence[int]) -> int:
    """Return the bytes of memory in which these processes are."""
    return _PAGE * sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids)
