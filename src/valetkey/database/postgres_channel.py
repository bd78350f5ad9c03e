"""Statements over one PostgreSQL connection: prepared once, pipelined, awaited when needed.

Built on libpq's pipeline mode, because a psycopg cursor for each statement cost several times as
much as the statement. `send` queues a statement; `result` waits for the last one queued; `finish`
ends the pipeline with a Sync message and waits; `leave` ends it without waiting.
"""

import select
from collections import OrderedDict, deque
from collections.abc import Sequence
from enum import Enum
from hashlib import blake2b
from math import inf
from time import monotonic

import psycopg
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ConnStatus, DiagnosticField, ExecStatus, TransactionStatus
from psycopg.pq.abc import PGresult

from valetkey.database.engine import Row
from valetkey.database.statement import Storable

Raw = psycopg.Connection[Row]

_STATEMENTS_KEPT = 500
# One type for all integers and one for all text, so that a statement is planned once. The server
# infers the type of a NULL.
_INT8, _TEXT, _INFERRED = 20, 25, 0

# A statement and the types of its parameters: what the server plans.
_Plan = tuple[bytes, tuple[int, ...]]


class _PendingAnswer(Enum):
    """Pending answers other than those to Parse messages, which are represented by their plan."""

    STATEMENT = 1
    SYNC = 2


class PendingResult:
    """The result of a statement that is read after those of later ones; None until it is there."""

    __slots__ = ("result",)

    def __init__(self) -> None:
        self.result: PGresult | None = None


class Channel:
    """The statements of one connection; used by one thread at a time.

    `send`, `result`, `finish` and `leave` raise `psycopg.OperationalError` when the connection is
    lost or an answer is late (see `limit`). The connection must then be closed. No cancel request
    is sent: a server that is frozen would not process it, and a working one ends statements by its
    own time limit. A commit is never cancelled: one that waits for its standby would become visible
    before it is safe.

    Unless `prepares`, every statement is parsed each time: a proxy that pools transactions sends
    each to another server, which lacks the statements prepared elsewhere. Unless `keeps_settings`,
    each transaction has to begin with its settings.
    """

    __slots__ = (
        "_counter",
        "_deadline",
        "_limit",
        "_owed",
        "_pgconn",
        "_plans",
        "_poll",
        "_raw",
        "_reader",
        "keeps_settings",
        "prepares",
    )

    def __init__(self, raw: Raw, *, prepares: bool = True) -> None:
        """Take over a connection in autocommit mode; its cursors must not be used any more."""
        self.prepares = prepares
        self.keeps_settings = True
        self._raw = raw
        self._pgconn = raw.pgconn
        self._reader = Transformer(raw)
        self._poll = select.poll()
        self._poll.register(self._pgconn.socket, select.POLLIN)
        self._plans: OrderedDict[_Plan, bytes] = OrderedDict()
        self._owed: deque[_PendingAnswer | PendingResult | _Plan] = deque()
        self._counter = 0
        self._limit = self._deadline = inf
        self._pgconn.enter_pipeline_mode()

    def limit(self, seconds: float) -> None:
        """Require all answers within `seconds` from now."""
        self._limit = seconds
        self._deadline = monotonic() + seconds

    def send(self, text: bytes, values: Sequence[Storable] = ()) -> None:
        """Queue a statement; its parameters are `$1`, `$2` and so on."""
        types: list[int] = []
        encoded: list[bytes | None] = []
        for value in values:
            if value is None:
                types.append(_INFERRED)
                encoded.append(None)
            elif isinstance(value, str):
                types.append(_TEXT)
                encoded.append(value.encode())
            else:
                types.append(_INT8)
                encoded.append(b"%d" % value)
        if not self.prepares:
            self._pgconn.send_query_params(text, encoded, types)
            self._owed.append(_PendingAnswer.STATEMENT)
            return
        plan = (text, tuple(types))
        name = self._plans.get(plan)
        if name is None:
            name = self._prepare(plan)
        else:
            self._plans.move_to_end(plan)
        self._pgconn.send_query_prepared(name, encoded)
        self._owed.append(_PendingAnswer.STATEMENT)

    def defer_result(self) -> PendingResult:
        """Keep the result of the statement queued last when it is received with later ones."""
        pending = PendingResult()
        self._owed[-1] = pending
        return pending

    def result(self) -> PGresult:
        """Wait for everything queued and return the last result. Raises `psycopg.Error`."""
        self._pgconn.send_flush_request()
        return self._last_result()

    def finish(self) -> PGresult:
        """Wait as `result` does and end the pipeline: what is sent next is another transaction."""
        self._sync()
        return self._last_result()

    def leave(self) -> None:
        """End the pipeline without waiting; `settle` waits before the next statement is sent."""
        self._sync()
        self._flush()

    def settle(self) -> psycopg.Error | None:
        """Read the answers that `leave` left pending; return the first error among them.

        A proxy that pools transactions reassigns the connection between two of them. If one began
        before the end of the previous one was read, its first statements could be lost.
        """
        return self._receive()[1] if self._owed else None

    def request_result(self) -> None:
        """Ask for everything queued without waiting; see `is_answered`."""
        self._pgconn.send_flush_request()
        self._flush()

    def is_answered(self) -> bool:
        """Return whether `result` would not wait, if one statement was queued since the last."""
        self._pgconn.consume_input()
        return not self._pgconn.is_busy()

    def rows(self, result: PGresult) -> list[Row]:
        """Return every row of a result, as tuples of text, integers and None."""
        if result.status != ExecStatus.TUPLES_OK:
            return []
        self._reader.set_pgresult(result)
        return self._reader.load_rows(0, result.ntuples, tuple)

    def recover(self) -> bool:
        """Roll back a failed transaction; return whether the connection can be used again."""
        try:
            self._sync()
            self._receive()
            if self._pgconn.transaction_status != TransactionStatus.IDLE:
                # Not by a prepared statement: that statement may be the one that is missing.
                self._pgconn.send_query_params(b"ROLLBACK", None)
                self._owed.append(_PendingAnswer.STATEMENT)
                self._sync()
                self._receive()
        except psycopg.Error:
            return False
        return self._pgconn.transaction_status == TransactionStatus.IDLE

    def is_silent(self) -> bool:
        """Return whether nothing has arrived since the last answer: no data and no close."""
        return not self._poll.poll(0)

    def close(self) -> None:
        """Disconnect."""
        self._raw.close()

    def _prepare(self, plan: _Plan) -> bytes:
        if len(self._plans) >= _STATEMENTS_KEPT:
            _, oldest = self._plans.popitem(last=False)
            # A rollback does not undo it; if the transaction fails before it, the server keeps one
            # more.
            self._pgconn.send_query_params(b"DEALLOCATE " + oldest, None)
            self._owed.append(_PendingAnswer.STATEMENT)
        self._counter += 1
        # The name is derived from the statement: behind a proxy, a statement of this name on
        # another connection must not be a different one. The number distinguishes those not yet
        # deallocated.
        digest = blake2b(repr(plan).encode(), digest_size=16).hexdigest()
        name = f"v{digest}_{self._counter}".encode()
        self._pgconn.send_prepare(name, plan[0], plan[1])
        self._plans[plan] = name
        self._owed.append(plan)
        return name

    def _sync(self) -> None:
        self._pgconn.pipeline_sync()
        self._owed.append(_PendingAnswer.SYNC)

    def _last_result(self) -> PGresult:
        last, problem = self._receive()
        if problem is not None:
            raise problem
        if last is None:
            message = "a result was asked for and no statement was sent"
            raise psycopg.InterfaceError(message)
        return last

    def _receive(self) -> tuple[PGresult | None, psycopg.Error | None]:
        """Read every pending answer; return the last statement's result and the first error."""
        self._flush()
        last: PGresult | None = None
        problem: psycopg.Error | None = None
        while self._owed:
            found = self._answer()
            owed = self._owed.popleft()
            if owed is _PendingAnswer.SYNC:
                continue
            failed = found.status in _FAILED
            if failed and problem is None:
                problem = self._error(found)
            if owed is _PendingAnswer.STATEMENT:
                last = found
            elif isinstance(owed, PendingResult):
                owed.result = last = found
            elif failed:
                self._plans.pop(owed, None)
        return last, problem

    def _answer(self) -> PGresult:
        """Return the answer to the oldest message that has one."""
        last: PGresult | None = None
        while True:
            while self._pgconn.is_busy():
                self._wait(select.POLLIN)
                self._pgconn.consume_input()
            found = self._pgconn.get_result()
            if found is None:
                if last is None:
                    raise psycopg.OperationalError("the connection gave no answer")
                return last
            if found.status == ExecStatus.PIPELINE_SYNC:
                return found
            last = found

    def _flush(self) -> None:
        while self._pgconn.flush():
            # The server may write before it continues reading: if both sides only write, they
            # deadlock.
            self._wait(select.POLLIN | select.POLLOUT)
            self._pgconn.consume_input()

    def _wait(self, events: int) -> None:
        if events != select.POLLIN:
            self._poll.modify(self._pgconn.socket, events)
        try:
            left = max(0.0, self._deadline - monotonic())
            if not self._poll.poll(None if left == inf else left * 1_000):
                raise psycopg.OperationalError(f"no answer within {self._limit:g} s")
        finally:
            if events != select.POLLIN:
                self._poll.modify(self._pgconn.socket, select.POLLIN)

    def _error(self, result: PGresult) -> psycopg.Error:
        lost = self._pgconn.status == ConnStatus.BAD
        if lost and result.error_field(DiagnosticField.SQLSTATE) is None:
            return psycopg.OperationalError("the connection was lost")
        return error_from_result(result)


_FAILED = (ExecStatus.FATAL_ERROR, ExecStatus.PIPELINE_ABORTED, ExecStatus.BAD_RESPONSE)
