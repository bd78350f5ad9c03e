"""Write MaxMind DB files (format 2), as small as tests need them."""

import struct
from collections.abc import Mapping
from ipaddress import IPv6Network, ip_network
from pathlib import Path

_MARKER = b"\xab\xcd\xefMaxMind.com"

Record = Mapping[str, object]

BERLIN: Record = {
    "city": {"geoname_id": 2950159, "names": {"en": "Berlin", "de": "Berlin"}},
    "country": {"iso_code": "DE", "names": {"en": "Germany", "de": "Deutschland"}},
    "location": {"latitude": 52.5, "accuracy_radius": 20},
    "subdivisions": [{"iso_code": "BE"}],
    "is_in_european_union": True,
}
JAPAN: Record = {"country": {"names": {"en": "Japan", "fr": "Japon"}}}
USUAL: Mapping[str, Record] = {"203.0.113.0/24": BERLIN, "2001:db8::/32": JAPAN}


def encode(value: object) -> bytes:
    """Return one value in the format of the data section."""
    match value:
        case bool():
            return bytes((int(value), 14 - 7))
        case str():
            data = value.encode()
            return _control(2, len(data)) + data
        case float():
            return _control(3, 8) + struct.pack(">d", value)
        case int():
            data = value.to_bytes((value.bit_length() + 7) // 8, "big")
            return _control(6 if len(data) <= 4 else 9, len(data)) + data
        case Mapping():
            parts = [encode(name) + encode(member) for name, member in value.items()]
            return _control(7, len(parts)) + b"".join(parts)
        case list():
            return _control(11, len(value)) + b"".join(map(encode, value))
        case Pointer():
            return value.encoded()
        case _:
            raise TypeError(value)


class Pointer:
    """A pointer to a place in the data section."""

    def __init__(self, to: int) -> None:
        self.to = to

    def encoded(self) -> bytes:
        """Return it with the shortest of the four sizes."""
        for size, (base, bits) in enumerate(((0, 11), (2_048, 19), (526_336, 27))):
            left = self.to - base
            if left < 1 << bits:
                high = left >> 8 * (size + 1)
                rest = left & ((1 << 8 * (size + 1)) - 1)
                return bytes((0x20 | size << 3 | high,)) + rest.to_bytes(size + 1, "big")
        return bytes((0x38,)) + self.to.to_bytes(4, "big")


def _control(kind: int, size: int) -> bytes:
    small, more = size, b""
    for length, base in ((3, 65_821), (2, 285), (1, 29)):
        if size >= base:
            small, more = 28 + length, (size - base).to_bytes(length, "big")
            break
    return bytes((kind << 5 | small,)) + more if kind < 8 else bytes((small, kind - 7)) + more


def geo_database(
    path: Path,
    entries: Mapping[str, Record] = USUAL,
    *,
    bits: int = 28,
    kind: str = "GeoLite2-City",
    data: bytes = b"",
) -> Path:
    """Write these networks; `data` is in front of the records, where pointers find it."""
    tree: list[list[int | str]] = [[-1, -1]]
    offsets: dict[str, int] = {}
    for text, record in entries.items():
        network = ip_network(text)
        is_new = isinstance(network, IPv6Network)
        number = int(network.network_address)
        length = network.prefixlen if is_new else 96 + network.prefixlen
        node = 0
        for depth in range(length):
            side = number >> (127 - depth) & 1
            if depth == length - 1:
                tree[node][side] = text
                break
            if tree[node][side] == -1:
                tree.append([-1, -1])
                tree[node][side] = len(tree) - 1
            node = int(tree[node][side])
        offsets[text] = len(data)
        data += encode(record)
    numbers: dict[int | str, int] = {-1: len(tree)}
    numbers |= {text: len(tree) + 16 + at for text, at in offsets.items()}
    nodes = b"".join(
        _pair(*(int(numbers.get(side, side)) for side in pair), bits=bits) for pair in tree
    )
    metadata = {
        "node_count": len(tree),
        "record_size": bits,
        "ip_version": 6,
        "binary_format_major_version": 2,
        "binary_format_minor_version": 0,
        "database_type": kind,
        "languages": ["en", "de"],
        "build_epoch": 1_795_000_000,
        "description": {"en": "Places for tests"},
    }
    path.write_bytes(nodes + bytes(16) + data + _MARKER + encode(metadata))
    return path


def _pair(left: int, right: int, *, bits: int) -> bytes:
    if bits != 28:
        return left.to_bytes(bits // 8, "big") + right.to_bytes(bits // 8, "big")
    middle = left >> 24 << 4 | right >> 24
    low = (1 << 24) - 1
    return (left & low).to_bytes(3, "big") + bytes((middle,)) + (right & low).to_bytes(3, "big")
