"""Who is calling: only what our own proxies wrote is believed."""

from ipaddress import ip_network

import pytest

from valetkey.web.client_address import Proxies, network_of

PROXIES = Proxies((ip_network("10.0.0.0/8"), ip_network("127.0.0.1/32"), ip_network("fd00::/8")))


def test_forwarded_address_is_ignored_without_trusted_proxies() -> None:
    assert Proxies().client("198.51.100.1", "203.0.113.9") == "198.51.100.1"


def test_untrusted_peer_cannot_set_client_address() -> None:
    assert PROXIES.client("198.51.100.1", "203.0.113.9") == "198.51.100.1"


@pytest.mark.parametrize(
    ("forwarded", "address"),
    [
        ("203.0.113.9", "203.0.113.9"),
        ("203.0.113.9, 10.1.1.1", "203.0.113.9"),
        ("198.51.100.1 ,\t203.0.113.9", "203.0.113.9"),
        ("1.1.1.1, 203.0.113.9, 10.1.1.1, 10.1.1.2", "203.0.113.9"),
        ("garbage, 203.0.113.9", "203.0.113.9"),
        ("2001:DB8::1", "2001:db8::1"),
        ("::ffff:203.0.113.9", "203.0.113.9"),
        ("203.0.113.9, ::ffff:10.1.1.1", "203.0.113.9"),
    ],
)
def test_the_last_address_before_our_proxies_is_the_client(forwarded: str, address: str) -> None:
    assert PROXIES.client("10.0.0.1", forwarded) == address


@pytest.mark.parametrize(
    "forwarded",
    [
        None,
        "",
        "a",
        "127.0.0.1",
        "127.0.0.2",
        "::1",
        "0.0.0.0",
        "224.0.0.1",
        "10.0.0.5",
        "203.0.113.9:443",
        "[2001:db8::1]",
        "fe80::1%eth0",
        "203.0.113.9,",
        "203.0.113.009",
        "٣.0.113.9",
        ",".join(["203.0.113.9"] + ["10.0.0.1"] * 1_000),
        "9" * 10_000,
    ],
)
def test_implausible_forwarded_address_gives_an_unknown_client(forwarded: str | None) -> None:
    assert PROXIES.client("127.0.0.1", forwarded) == ""


def test_only_proxies_are_trusted() -> None:
    assert PROXIES.trusts("10.2.3.4")
    assert PROXIES.trusts("::ffff:10.2.3.4")
    assert not PROXIES.trusts("11.2.3.4")
    assert not PROXIES.trusts("")
    assert not Proxies().trusts("127.0.0.1")


@pytest.mark.parametrize(
    ("address", "block"),
    [
        ("203.0.113.9", "203.0.113.0/24"),
        ("2001:db8:1:2ff::1", "2001:db8:1:200::/56"),
        ("::ffff:203.0.113.9", "203.0.113.0/24"),
        ("", ""),
        ("garbage", ""),
    ],
)
def test_network_of_an_address_is_its_24_or_56_prefix(address: str, block: str) -> None:
    assert network_of(address) == block
