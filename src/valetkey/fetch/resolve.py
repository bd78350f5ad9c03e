"""Names to addresses, through the system's resolver or a test's own."""

import asyncio
import socket
from collections.abc import Sequence
from typing import Protocol


class Resolve(Protocol):
    """Finds the addresses of a host."""

    async def __call__(self, host: str, port: int, /) -> Sequence[str]:
        """Every address of `host`, best first. Raises OSError where there is none."""
        ...


async def resolve_by_system(host: str, port: int, /) -> Sequence[str]:
    """What the system's resolver says, files and search order included."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]
