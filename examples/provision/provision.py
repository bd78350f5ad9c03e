"""Create, change and delete groups, APIs and apps through the admin API, as a file declares them.

    python provision.py desired.json            # print the plan
    python provision.py desired.json --apply    # carry it out

VALETKEY_URL is the URL of the authorization server, VALETKEY_TOKEN an API token with the
permissions read, people and clients. `state.json`, beside the file, holds the ids that the server
generated; objects that are in it and no longer in the file are deleted.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

_IDS = {"groups": "name", "apis": "api_id", "clients": "client_id"}
_MISSING = 404
_Record = dict[str, Any]


def call(method: str, path: str, body: object = None, etag: str = "") -> tuple[_Record, str]:
    """Send one request; return the response and its ETag. Raises HTTPError."""
    headers = {"authorization": f"Bearer {os.environ['VALETKEY_TOKEN']}"}
    if body is not None:
        headers["content-type"] = "application/json"
    if etag:
        headers["if-match"] = etag
    url = f"{os.environ['VALETKEY_URL']}/admin/api/v1{path}"
    data = None if body is None else json.dumps(body).encode()
    request = Request(url, data, headers, method=method)  # noqa: S310 - the operator's own URL
    with urlopen(request, timeout=30) as response:  # noqa: S310
        answer: _Record = json.loads(response.read() or b"{}")
        # Responses about apps and APIs have the object in `record`, beside secrets and use.
        return {**answer, **answer.get("record", {})}, response.headers.get("etag", "")


def found(path: str) -> tuple[_Record, str] | None:
    """Return an object and its ETag; None if it does not exist."""
    try:
        return call("GET", path)
    except HTTPError as error:
        if error.code != _MISSING:
            raise
        return None


def differing(wanted: _Record, current: _Record) -> _Record:
    """Return the declared fields that have another value."""
    return {name: value for name, value in wanted.items() if current.get(name) != value}


def provision(desired: dict[str, dict[str, _Record]], state: dict[str, str], *, apply: bool) -> int:
    """Make the server as declared; return how many objects differ."""
    declared = {f"{kind}/{key}": wanted for kind in _IDS for key, wanted in desired[kind].items()}
    changes = 0
    for name, wanted in declared.items():
        kind = name.partition("/")[0]
        known = found(f"/{kind}/{quote(state[name], safe='')}") if name in state else None
        changed = wanted if known is None else differing(wanted, known[0])
        if not changed:
            continue
        changes += 1
        say(f"{'create' if known is None else 'change'} {name}: {', '.join(changed)}")
        if apply and known is None:
            made, _ = call("POST", f"/{kind}", wanted)
            state[name] = made[_IDS[kind]]
            if secret := made.get("client_secret"):
                say(f"  client_id {state[name]}\n  client_secret {secret}")
        elif apply and known is not None:
            after, _ = call("PATCH", f"/{kind}/{quote(state[name], safe='')}", changed, known[1])
            state[name] = after[_IDS[kind]]
    for name in [each for each in reversed(state) if each not in declared]:
        changes += 1
        say(f"delete {name}")
        if apply:
            call("DELETE", f"/{name.partition('/')[0]}/{quote(state.pop(name), safe='')}")
    return changes


def say(line: str) -> None:
    """Print a line."""
    sys.stdout.write(f"{line}\n")


def main(file: str, *options: str) -> None:
    """Run the program."""
    saved = Path(file).with_name("state.json")
    state = json.loads(saved.read_text()) if saved.exists() else {}
    apply = "--apply" in options
    try:
        changes = provision(json.loads(Path(file).read_text()), state, apply=apply)
    except HTTPError as error:
        sys.exit(f"{error.code}: {error.read().decode()}")
    finally:
        if apply:
            saved.write_text(json.dumps(state, indent=1))
    say(f"{changes} {'changed' if apply else 'to change'}")


if __name__ == "__main__":
    main(*sys.argv[1:])
