"""Read a MaxMind DB file (format 2): the record of an IP address.

Read with `pread`, not mapped into memory: a file that is overwritten in place gives wrong places,
or none, but cannot end the process.
"""

import os
import struct
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple, NoReturn, cast

_MARKER = b"\xab\xcd\xefMaxMind.com"
_TAIL = 128 * 1024  # bytes at the end that hold the marker and the metadata
_SEPARATOR = 16  # zero bytes between the tree and the data
_RECORD_BITS = frozenset({24, 28, 32})
_VERSION = 2
_BITS = {4: 32, 6: 128}
_V4_IN_V6 = 96  # IPv4 is below ::/96
_DEEPEST = 16
_MOST_VALUES = 2_000
_LARGEST = 64 * 1024  # bytes of the values of a record
_BLOCK = 4_096

_POINTER, _TEXT, _DOUBLE, _BYTES, _UINT16, _UINT32, _MAP, _INT32 = range(1, 9)
_UINT64, _UINT128, _ARRAY, _FLAG, _FLOAT = 9, 10, 11, 14, 15
_NUMBERS = frozenset({_UINT16, _UINT32, _INT32, _UINT64, _UINT128})


class InvalidGeoDatabase(ValueError):
    """The file is not a MaxMind DB, or is damaged."""


class _Shape(NamedTuple):
    nodes: int
    bits: int
    version: int
    data: int
    end: int


class GeoDatabase:
    """An open file. Any thread may use it."""

    __slots__ = ("_fd", "_first_v4", "_shape", "kind")

    def __init__(self, path: Path) -> None:
        """Open the file and read its metadata. Raises OSError and InvalidGeoDatabase."""
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._shape, self.kind = self._metadata()
            self._first_v4 = self._walk(0, 0, _V4_IN_V6) if self._shape.version == 6 else 0  # noqa: PLR2004
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file; it must not be used after that."""
        os.close(self._fd)

    def find(self, address: str) -> Mapping[str, object]:
        """Return the record of an IP address, empty for none.

        Raises ValueError for text that is no address, OSError, and InvalidGeoDatabase.
        """
        parsed, shape = ip_address(address), self._shape
        if parsed.version > shape.version:
            return {}
        node = self._first_v4 if parsed.version == 4 else 0  # noqa: PLR2004
        found = self._walk(node, int(parsed), _BITS[parsed.version])
        if found <= shape.nodes:
            return {}
        at = found - shape.nodes - _SEPARATOR + shape.data
        record = _Reader(self._fd, shape.data, shape.end).value(at)
        return cast("Mapping[str, object]", record) if isinstance(record, dict) else {}

    def _walk(self, node: int, number: int, bits: int) -> int:
        nodes = self._shape.nodes
        for bit in range(bits - 1, -1, -1):
            if node >= nodes:
                break
            node = self._record(node, number >> bit & 1)
        return node

    def _record(self, node: int, side: int) -> int:
        bits = self._shape.bits
        size = bits // 4
        pair = _read(self._fd, node * size, size)
        half = size // 2
        if bits != 28:  # noqa: PLR2004
            return int.from_bytes(pair[half:] if side else pair[:half], "big")
        # The byte in the middle holds the highest four bits of both.
        high = pair[3] & 15 if side else pair[3] >> 4
        return high << 24 | int.from_bytes(pair[4:] if side else pair[:3], "big")

    def _metadata(self) -> tuple[_Shape, str]:
        size = os.fstat(self._fd).st_size
        start = max(0, size - _TAIL)
        tail = _read(self._fd, start, size - start)
        marked = tail.rfind(_MARKER)
        if marked < 0:
            _bad("it is not a MaxMind DB file")
        begin = start + marked + len(_MARKER)
        said = _Reader(self._fd, begin, size).value(begin)
        if not isinstance(said, dict):
            _bad("its metadata is damaged")
        told = cast("Mapping[str, object]", said)
        names = "node_count", "record_size", "ip_version", "binary_format_major_version"
        nodes, bits, version, format_ = (told.get(name) for name in names)
        if not isinstance(nodes, int) or not isinstance(bits, int) or not isinstance(version, int):
            _bad("its metadata is damaged")
        if format_ != _VERSION or bits not in _RECORD_BITS or version not in _BITS or nodes < 1:
            _bad("it has another version of the format")
        tree = nodes * bits // 4
        if tree + _SEPARATOR > begin:
            _bad("it is cut off")
        kind = told.get("database_type")
        shape = _Shape(nodes, bits, version, tree + _SEPARATOR, begin - len(_MARKER))
        return shape, kind if isinstance(kind, str) else ""


class _Reader:
    """Decodes one value; the number of values, their size and their depth are bounded."""

    __slots__ = ("_begin", "_blocks", "_end", "_fd", "_left", "_room")

    def __init__(self, fd: int, begin: int, end: int) -> None:
        self._fd, self._begin, self._end = fd, begin, end
        # Names are stored once, far from the values that they name.
        self._blocks: dict[int, bytes] = {}
        self._left, self._room = _MOST_VALUES, _LARGEST

    def value(self, at: int) -> object:
        return self._decode(at, 0)[0]

    def _take(self, at: int, size: int) -> bytes:
        if size > _LARGEST or at < self._begin or at + size > self._end:
            _bad("a value is outside of its data")
        block, first = divmod(at, _BLOCK)
        if first + size > _BLOCK:
            return _read(self._fd, at, size)
        held = self._blocks.get(block)
        if held is None:
            start = block * _BLOCK
            held = self._blocks[block] = _read(self._fd, start, min(_BLOCK, self._end - start))
        return held[first : first + size]

    def _decode(self, at: int, depth: int) -> tuple[object, int]:
        """Return a value and where the next one begins."""
        self._left -= 1
        if depth > _DEEPEST or self._left < 0:
            _bad("a record is too large")
        control = self._take(at, 1)[0]
        at += 1
        kind = control >> 5
        if kind == _POINTER:
            to, at = self._pointer(control, at)
            return self._decode(to, depth + 1)[0], at
        if kind == 0:
            kind = 7 + self._take(at, 1)[0]
            at += 1
        size, at = self._size(control & 31, at)
        if kind == _MAP:
            return self._map(size, at, depth)
        if kind == _ARRAY:
            items: list[object] = []
            for _ in range(size):
                item, at = self._decode(at, depth + 1)
                items.append(item)
            return items, at
        if kind == _FLAG:
            return bool(size), at
        # Many pointers may lead to one long value.
        self._room -= size
        if self._room < 0:
            _bad("a record is too large")
        return _scalar(kind, self._take(at, size)), at + size

    def _map(self, size: int, at: int, depth: int) -> tuple[object, int]:
        entries: dict[str, object] = {}
        for _ in range(size):
            key, at = self._decode(at, depth + 1)
            if not isinstance(key, str):
                _bad("the name of a value is no text")
            entries[key], at = self._decode(at, depth + 1)
        return entries, at

    def _pointer(self, control: int, at: int) -> tuple[int, int]:
        length = (control >> 3 & 3) + 1
        number = int.from_bytes(self._take(at, length), "big")
        if length < 4:  # noqa: PLR2004
            number += ((control & 7) << 8 * length) + (0, 2_048, 526_336)[length - 1]
        return self._begin + number, at + length

    def _size(self, size: int, at: int) -> tuple[int, int]:
        if size < 29:  # noqa: PLR2004
            return size, at
        length = size - 28
        base = (29, 285, 65_821)[length - 1]
        return base + int.from_bytes(self._take(at, length), "big"), at + length


def _scalar(kind: int, data: bytes) -> object:
    if kind == _TEXT:
        try:
            return data.decode()
        except UnicodeDecodeError:
            _bad("a text is not UTF-8")
    if kind in _NUMBERS:
        return int.from_bytes(data, "big", signed=kind == _INT32)
    if kind == _BYTES:
        return data
    layout = {_DOUBLE: ">d", _FLOAT: ">f"}.get(kind)
    if layout is None or len(data) != struct.calcsize(layout):
        _bad("a value has an unknown type")
    return struct.unpack(layout, data)[0]


def _read(fd: int, at: int, size: int) -> bytes:
    data = os.pread(fd, size, at)
    if len(data) != size:
        _bad("it is cut off")
    return data


def _bad(why: str) -> NoReturn:
    raise InvalidGeoDatabase(why)
