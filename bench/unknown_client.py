"""`python -m bench.unknown_client`: what the time of a refusal tells of who is registered.

Sends token requests with a wrong secret, in turn for a registered client and for one that nobody
registered, over one connection to a running server, and prints both distributions. `apart` is the
chance that a random refusal of the registered client took longer than one of the unknown client:
0.5 where time tells nothing.
"""

import argparse
import http.client
import time
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from pathlib import Path
from statistics import quantiles
from tempfile import TemporaryDirectory
from urllib.parse import urlencode, urlsplit

from bench.processes import ended_together
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.config.settings import AuthorizationSettings, LimitSettings, Settings
from valetkey.kernel.replace import replace
from valetkey.testing.server import Servers

_KNOWN, _UNKNOWN = "client-registered-here-1", "client-registered-here-2"
_WRONG = "w" * 49
_SHOWN = (1, 10, 25, 50, 75, 90, 99)


def main() -> None:
    """Start a server, ask in turn, print."""
    parser = argparse.ArgumentParser(prog="python -m bench.unknown_client", description=__doc__)
    parser.add_argument("--requests", type=int, default=5_000, help="for each of the two")
    parser.add_argument("--database", default="", help="instead of SQLite: postgresql://...")
    chosen = parser.parse_args()
    settings = Settings(limits=LimitSettings(client_failures=1_000_000))
    if chosen.database:
        settings = replace(settings, authorization=AuthorizationSettings(database=chosen.database))
    with (
        TemporaryDirectory() as directory,
        Servers(Path(directory), settings=settings, with_resource=False) as servers,
    ):
        metadata = ClientMetadata(name="Known", grant_types=("client_credentials",))
        servers.register_client(metadata, _KNOWN, "s" * 49)
        took = _ask(servers.auth_url, chosen.requests)
    print("milliseconds " + " ".join(f"{f'p{percentile}':>7}" for percentile in _SHOWN))
    for name, times in took.items():
        cuts = quantiles(times, n=100)
        print(
            f"{name:12} " + " ".join(f"{cuts[percentile - 1] * 1e3:7.3f}" for percentile in _SHOWN)
        )
    print(f"apart        {_apart(took['known'], took['unknown']):7.3f}")


def _ask(url: str, count: int) -> dict[str, list[float]]:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
    head = {"content-type": "application/x-www-form-urlencoded"}
    names = {"known": _KNOWN, "unknown": _UNKNOWN}
    took: dict[str, list[float]] = {name: [] for name in names}
    for number in range(count + 200):
        # The order changes: what comes second must not always be the same.
        for name in sorted(names, reverse=number % 2 == 1):
            form = {"grant_type": "client_credentials", "client_secret": _WRONG}
            body = urlencode({**form, "client_id": names[name]})
            began = time.perf_counter()
            connection.request("POST", "/oauth/token", body, head)
            answer = connection.getresponse()
            answer.read()
            spent = time.perf_counter() - began
            if answer.status != 401:
                message = f"{answer.status} for the {name} client"
                raise SystemExit(message)
            if number >= 200:
                took[name].append(spent)
    connection.close()
    return took


def _apart(longer: Sequence[float], shorter: Sequence[float]) -> float:
    ordered = sorted(shorter)
    won = sum(
        bisect_left(ordered, duration) + bisect_right(ordered, duration) for duration in longer
    )
    return won / 2 / len(longer) / len(ordered)


if __name__ == "__main__":
    with ended_together():
        main()
