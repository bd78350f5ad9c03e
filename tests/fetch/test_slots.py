"""RequestSlots: what counts as one site."""

import pytest

from valetkey.fetch.address import site_of


@pytest.mark.parametrize(
    ("host", "site"),
    [
        ("app.example", "app.example"),
        ("a.b.app.example", "app.example"),
        ("localhost", "localhost"),
        ("192.0.2.7", "192.0.2.7"),
        ("[2001:db8::7]", "[2001:db8::7]"),
    ],
)
def test_a_site_is_a_domain_or_an_address(host: str, site: str) -> None:
    assert site_of(host) == site
