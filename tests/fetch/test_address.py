"""Which addresses are out in the world."""

from ipaddress import ip_network

import pytest

from valetkey.fetch.address import is_in, may_be_reached, read_address

INSIDE = [
    "0.0.0.0", "0.255.255.255", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.127.255.255",
    "127.0.0.1", "127.255.255.255", "168.63.129.16", "169.254.169.254", "172.16.0.1",
    "172.31.255.255", "192.0.0.1", "192.0.0.8", "192.0.0.170", "192.0.2.1", "192.88.99.1",
    "192.168.0.1", "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1",
    "239.255.255.255", "240.0.0.1", "255.255.255.255",
    "::", "::1", "::127.0.0.1", "::8.8.8.8", "::ffff:127.0.0.1", "::ffff:10.0.0.1",
    "::ffff:0:127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::808:808", "100::1",
    "2001::1", "2001:0:7f00:1::1", "2001:2::1", "2001:10::1", "2001:db8::1", "2002:7f00:1::",
    "2002:808:808::1", "3fff::1", "5f00::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fec0::1",
    "ff02::1", "ff0e::1",
]  # fmt: skip
OUTSIDE = [
    "1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.1", "100.63.255.255", "100.128.0.1",
    "172.15.255.255", "172.32.0.1", "192.0.1.1", "198.17.255.255", "198.20.0.1", "223.255.255.255",
    "2600::1", "2606:4700:4700::1111", "2a00:1450:4001:800::200e", "::ffff:8.8.8.8",
    "64:ff9b::808:808",
]  # fmt: skip


@pytest.mark.parametrize("text", INSIDE)
def test_private_addresses_are_refused(text: str) -> None:
    address = read_address(text)
    assert address is not None
    assert not may_be_reached(address)


@pytest.mark.parametrize("text", OUTSIDE)
def test_public_addresses_are_reached(text: str) -> None:
    address = read_address(text)
    assert address is not None
    assert may_be_reached(address)


@pytest.mark.parametrize("text", ["", "localhost", "127.1", "0x7f.1", "fe80::1%eth0", "1.1.1.1/32"])
def test_text_that_is_no_address_gives_none(text: str) -> None:
    assert read_address(text) is None


@pytest.mark.parametrize(
    ("text", "reached"),
    [
        ("127.0.0.1", True),
        ("::ffff:127.0.0.1", True),
        ("64:ff9b::7f00:1", True),
        ("fd12::1", True),
        ("2002:7f00:1::", False),
        ("::1", False),
        ("10.0.0.1", False),
        ("169.254.169.254", False),
    ],
)
def test_private_addresses_are_allowed_only_in_networks_listed_by_the_operator(
    text: str, reached: bool
) -> None:
    allowed = (ip_network("127.0.0.0/8"), ip_network("fd12::/16"))
    address = read_address(text)
    assert address is not None
    assert may_be_reached(address, allowed) is reached
    assert is_in(address, allowed) is reached
