"""Server-sent events, as the WHATWG's HTML standard writes them (section 9.2)."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Event:
    """What stood between two empty lines. A sign of life has no `data`."""

    id: str
    data: bytes


async def read_events(lines: AsyncGenerator[bytes]) -> AsyncGenerator[Event]:
    """The events of a stream that comes line by line; comments and unknown fields are skipped."""
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
