"""Protection against cross-site request forgery.

A token in each form, bound to the browser's cookie and to the purpose of the form, and a check of
the request's Origin and Sec-Fetch-Site headers.
"""

from collections.abc import Sequence

from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.secret import FingerprintKey, same
from valetkey.kernel.text import translatable
from valetkey.web.exchange import Headers

_OWN = frozenset({"same-origin", "none"})


def csrf_token(key: FingerprintKey, browser: str, purpose: str, *about: str) -> str:
    """Return the token for a form with this `purpose` in the browser with this cookie.

    `about` lists what else the form is bound to, such as the interaction and the session; no value
    may contain NUL.
    """
    return key.fingerprint("csrf", "\0".join((purpose, browser, *about)))


def check_csrf_token(expected: str, presented: Sequence[str]) -> None:
    """Refuse with `forbidden` unless the expected token was sent exactly once."""
    if len(presented) == 1 and same(expected, presented[0]):
        return
    raise _refused(
        "token",
        translatable(
            "this form has expired or was opened in another browser; go back and try again"
        ),
        "the token of the form",
        "another token" if presented else "nothing",
    )


def check_origin(headers: Headers, own: str) -> None:
    """Refuse with `forbidden` a form that was submitted from another origin.

    `own` is this server's origin. Our pages send no referrer, so browsers send `Origin: null` with
    our own forms; that is accepted only if Sec-Fetch-Site confirms it. Clients that send neither
    header are checked by the token alone.
    """
    sites = headers.all("sec-fetch-site")
    for site in sites:
        if site not in _OWN:
            raise _foreign("Sec-Fetch-Site", site)
    for origin in headers.all("origin"):
        if origin == own or (origin == "null" and sites):
            continue
        raise _foreign("Origin", origin)


def _foreign(header: str, received: str) -> Refused:
    return _refused(
        "origin",
        translatable("this form was sent from another site; open the page here and try again"),
        "a request from a page of this server",
        f"{header}: {received[:100]!a}",
    )


def _refused(check: str, description: str, expected: str, received: str) -> Refused:
    return Refused.because(ErrorCode.FORBIDDEN, description, f"csrf.{check}", expected, received)
