"""What browsers are given to keep."""

from valetkey.authorization.authentication.browsers import Cookies
from valetkey.kernel.runtime import SYSTEM
from valetkey.kernel.secret import FingerprintKey, Prefix, fresh_secret

KEY = FingerprintKey(b"k" * 32)


def test_browser_state_cookie_is_readable_by_scripts_and_cross_site_frames() -> None:
    cookies = Cookies(secure=True, key=KEY)
    session, mark = cookies.begin(fresh_secret(Prefix.SESSION, SYSTEM.random), "se_1")
    assert session[1].endswith("; Path=/; HttpOnly; SameSite=Lax; Secure")
    value = cookies.browser_state("se_1")
    assert mark[1] == f"__Host-browser-state={value}; Path=/; SameSite=None; Secure"


def test_browser_state_cookie_without_tls_is_samesite_lax() -> None:
    cookies = Cookies(secure=False, key=KEY)
    _, mark = cookies.begin(fresh_secret(Prefix.SESSION, SYSTEM.random), "se_1")
    assert (
        mark[1] == f"valetkey-browser-state={cookies.browser_state('se_1')}; Path=/; SameSite=Lax"
    )


def test_browser_state_differs_per_session_and_hides_the_session_id() -> None:
    cookies = Cookies(secure=True, key=KEY)
    marks = {cookies.browser_state(session_id) for session_id in ("se_1", "se_2", "")}
    assert len(marks) == 3
    assert all("se_" not in mark for mark in marks)


def test_signing_out_clears_both_cookies() -> None:
    cookies = Cookies(secure=True, key=KEY)
    assert [header[1].partition("; ")[0] for header in cookies.end()] == [
        "__Host-session=",
        "__Host-browser-state=",
    ]
    assert all("; Max-Age=0" in header[1] for header in cookies.end())
