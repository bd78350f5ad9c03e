"""A library of Node as Python sees it: a process that takes and gives lines of JSON."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Self

from tests.clients.site import Site
from tests.support.live import CALLBACK
from tests.support.wait import CEILING

FOLDER = Path(__file__).parent
SCOPE = "account:read notes:read"


@dataclass(frozen=True)
class Told:
    """What a step told: the library's result, or the error that it threw."""

    said: Mapping[str, object]

    def __getitem__(self, name: str) -> object:
        assert "problem" not in self.said, self.said
        return self.said[name]

    @property
    def problem(self) -> Mapping[str, object]:
        """The error's name, code, and what the server said."""
        error = self.said["problem"]
        assert isinstance(error, dict)
        return error


class Script:
    """A script that runs as long as the block, and remembers nothing from step to step."""

    def __init__(self, node: str, name: str, environment: Mapping[str, str] | None = None) -> None:
        self._process = Popen(
            [node, FOLDER / name],
            stdin=PIPE,
            stdout=PIPE,
            text=True,
            env={**os.environ, **(environment or {})},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=CEILING)

    def ask(self, request: Mapping[str, object]) -> Mapping[str, object]:
        """One step; the servers' own deadlines end what hangs."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the script ended"
        reply: Mapping[str, object] = json.loads(answer)
        return reply


@dataclass(frozen=True)
class Library:
    """One of the scripts, for one client."""

    script: Script
    site: Site
    client: Mapping[str, object] = field(default_factory=dict[str, object])

    def of(self, client_id: str, proof: str, **more: object) -> "Library":
        """The same library speaking for a client with its way of proving who it is."""
        client = {"client_id": client_id, "proof": proof, **more}
        return Library(self.script, self.site, client)

    def step(self, name: str, **values: object) -> Told:
        """Run one step."""
        defaults = {"issuer": self.site.issuer, "callback": CALLBACK, "scope": SCOPE}
        return Told(self.script.ask({"step": name, **defaults, **self.client, **values}))

    def arrive(self, **values: object) -> dict[str, object]:
        """Begin, and let Ada allow: what `finish` wants to know."""
        begun = self.step("begin", **values).said
        return {**begun, "arrived": self.site.arrive(str(begun["url"]))}

    def sign_in(self, **values: object) -> Told:
        """Begin, let Ada allow, and finish: a token response."""
        return self.step("finish", **self.arrive(**values))
