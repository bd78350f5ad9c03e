"""Somebody who registers applications, mostly wrong ones, from outside."""

import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import requests

from tests.support.live import Answer
from tests.support.wait import CEILING
from valetkey.testing.server import Servers

CALLBACK = "https://app.example/cb"
GOOD: Mapping[str, object] = {"redirect_uris": [CALLBACK], "client_name": "Printer"}


@dataclass(frozen=True)
class Applicant:
    """The registration endpoint as a program elsewhere sees it."""

    servers: Servers

    @property
    def url(self) -> str:
        return f"{self.servers.auth_url}/oauth/register"

    def post(self, body: bytes, content_type: str = "application/json", token: str = "") -> Answer:
        """One request, byte for byte."""
        headers = {"content-type": content_type}
        if token:
            headers["authorization"] = f"Bearer {token}"
        response = requests.post(self.url, data=body, headers=headers, timeout=CEILING)
        return Answer(response)

    def register(self, **changes: object) -> Answer:
        """A good registration, with `changes`."""
        return self.post(json.dumps({**GOOD, **changes}).encode())

    def registered(self, **changes: object) -> dict[str, Any]:
        """One that is accepted."""
        answer = self.register(**changes)
        assert answer.status == 201, answer.response.text
        assert answer.response.headers["cache-control"] == "no-store"
        return dict(answer.json)

    def manage(
        self, record: Mapping[str, Any], method: str, body: object = None, token: str = ""
    ) -> Answer:
        """What an application does with its registration."""
        token = token or record["registration_access_token"]
        response = requests.request(
            method,
            record["registration_client_uri"],
            json=body,
            headers={"authorization": f"Bearer {token}"},
            timeout=CEILING,
        )
        return Answer(response)

    @contextmanager
    def nothing_changes(self) -> Generator[None]:
        """NC of the catalogue, as far as registration reaches."""
        before = self._state()
        yield
        assert self._state() == before

    def _state(self) -> list[list[str]]:
        return self.servers.write(
            lambda tx: [
                sorted(map(repr, tx.db.rows("SELECT * FROM clients"))),
                sorted(map(repr, tx.db.rows("SELECT * FROM client_secrets"))),
                sorted(map(repr, tx.db.rows("SELECT * FROM registrations"))),
            ]
        )
