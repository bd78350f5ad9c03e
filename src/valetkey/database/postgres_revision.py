"""Asks PostgreSQL twice a second whether anybody, anywhere, wrote to table `revision`."""

import threading
from collections.abc import Mapping

import psycopg

from valetkey.database.postgres_connection import Raw, open_connection
from valetkey.kernel.refusal import Mistake

_EVERY = 0.5
_SUM = b"SELECT sum(number) FROM revision"


class Revision:
    """The number behind `Engine.changed`, with a thread and a connection that keep it true."""

    def __init__(self, told: Mapping[str, str]) -> None:
        """Connect as `told`, once somebody asks for the number."""
        self._told = told
        self._number = 0
        self._turn = threading.Lock()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def number(self) -> int:
        """The number now; the first call starts the thread."""
        if self._thread is None:
            self._start()
        return self._number

    def advance(self) -> None:
        """Make it another number: this process wrote to the table, or cannot see it."""
        with self._turn:
            self._number += 1

    def close(self) -> None:
        """Stop asking. Blocks for as long as a question is out."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join()

    def _start(self) -> None:
        with self._turn:
            if self._thread is None and not self._closing.is_set():
                self._thread = threading.Thread(
                    target=self._watch, name="valetkey-revision", daemon=True
                )
                self._thread.start()

    def _watch(self) -> None:
        raw: Raw | None = None
        last: object = None
        while True:
            try:
                raw = raw or open_connection(self._told)
                found = raw.execute(_SUM).fetchone()
            except (psycopg.Error, Mistake):
                found = None
                if raw is not None and raw.closed:
                    raw = None
            # A table that cannot be seen may have changed: better to look once too often.
            if found is None or found != last:
                last = found
                self.advance()
            if self._closing.wait(_EVERY):
                break
        if raw is not None:
            raw.close()
