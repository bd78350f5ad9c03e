"""Parse server-sent events (WHATWG HTML standard, section 9.2)."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Event:
    """One event, ended by an empty line. A keep-alive has no `data`."""

    id: str
    data: bytes


async def read_events(lines: AsyncGenerator[bytes]) -> AsyncGenerator[Event]:
    """Parse the lines of a stream into events; comments and unknown fields are skipped."""
    async with aclosing(lines) as these:
        id_, data = "", bytearray()
        async for line in these:
            if not line:
                yield Event(id_, bytes(data))
                data.clear()
                continue
            name, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if name == b"data":
                data += b"\n" + value if data else value
            elif name == b"id" and b"\0" not in value:
                id_ = value.decode("utf-8", "replace")
