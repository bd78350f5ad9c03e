"""`python -m bench.revocation`: how soon the resource server refuses a revoked token.

Starts both servers as `valetkey serve` does. In each round a client gets a token, calls the API
with it, revokes it and calls again until the answer is 401. Prints seconds from the answer to the
revocation to the first refusal. The documentation promises five. The exit code is 1 if a round
took longer.
"""

import argparse
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import requests

from bench.processes import ended_together
from bench.servers import Running, start
from bench.workloads import SECRET

_PROMISED = 5.0
_PAUSE = 0.01  # seconds between two calls: how exact a figure is
_PATIENCE = 60.0


def main() -> int:
    """Start the servers, revoke, print."""
    parser = argparse.ArgumentParser(prog="python -m bench.revocation", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20, help="for each format of tokens")
    parser.add_argument("--workers", type=int, default=1, help="processes of each server")
    chosen = parser.parse_args()
    worst = 0.0
    print("seconds         median     max")
    with (
        TemporaryDirectory() as directory,
        start(Path(directory), workers=chosen.workers) as servers,
    ):
        for name, client_id in (("JWT", "service"), ("by reference", "reference")):
            took = [_round(servers, client_id) for _ in range(chosen.rounds)]
            print(f"{name:14} {median(took):7.3f} {max(took):7.3f}")
            worst = max(worst, *took)
    return int(worst > _PROMISED)


def _round(servers: Running, client_id: str) -> float:
    with requests.Session() as session:
        form = {"grant_type": "client_credentials"}
        auth = (client_id, SECRET)
        url = f"{servers.auth}/oauth/token"
        token = session.post(url, form, auth=auth, timeout=_PATIENCE).json()["access_token"]
        if _status(session, servers, token) != 200:
            message = "the API refuses a token that is new"
            raise SystemExit(message)
        revoke = f"{servers.auth}/oauth/revoke"
        session.post(revoke, {"token": token}, auth=auth, timeout=_PATIENCE).raise_for_status()
        began = time.perf_counter()
        while _status(session, servers, token) != 401:
            if time.perf_counter() - began > _PATIENCE:
                message = "a revoked token works for a minute"
                raise SystemExit(message)
            time.sleep(_PAUSE)
        return time.perf_counter() - began


def _status(session: requests.Session, servers: Running, token: str) -> int:
    bearer = {"Authorization": f"Bearer {token}"}
    return session.get(f"{servers.api}/v2/client", headers=bearer, timeout=_PATIENCE).status_code


if __name__ == "__main__":
    with ended_together():
        sys.exit(main())
