"""What browsers call themselves, and what people call them."""

import pytest

from valetkey.authorization.authentication.browsers import browser_of

_WEBKIT = "AppleWebKit/537.36 (KHTML, like Gecko)"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko Firefox/140.0", ("Firefox", "Linux")),
        (f"Mozilla/5.0 (Windows NT 10.0) {_WEBKIT} Chrome/140.0 Safari/537", ("Chrome", "Windows")),
        (f"Mozilla/5.0 (Windows NT 10.0) {_WEBKIT} Chrome/140 Edg/140", ("Edge", "Windows")),
        (f"Mozilla/5.0 (Macintosh; Intel) {_WEBKIT} Version/18 Safari/605", ("Safari", "Mac")),
        (f"Mozilla/5.0 (Linux; Android 15) {_WEBKIT} Chrome/140 Mobile", ("Chrome", "Android")),
        ("Mozilla/5.0 (iPhone; CPU like Mac OS X) FxiOS/140 Safari/605", ("Firefox", "iPhone")),
        ("curl/8.5.0", ("", "")),
        ("", ("", "")),
    ],
)
def test_browser_is_named_by_the_most_specific_match(text: str, names: tuple[str, str]) -> None:
    assert browser_of(text) == names
