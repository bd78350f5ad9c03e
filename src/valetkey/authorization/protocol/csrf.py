"""Cross-site request forgery: only forms of ours, sent by the browser we gave them to, count.

A token in the form, bound to the browser's cookie and to what the form is about, plus what the
browser says of where the request came from (security 23).
"""

from collections.abc import Sequence

from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.secret import FingerprintKey, same
from valetkey.web.exchange import Headers

_OWN = frozenset({"same-origin", "none"})


def csrf_token(key: FingerprintKey, browser: str, purpose: str, *about: str) -> str:
    """The token for a form that serves `purpose`, in the browser with this cookie.

    `about` names what else the form is bound to, such as the interaction and the session; none of
    it may hold NUL.
    """
    return key.of("csrf", "\0".join((purpose, browser, *about)))


def check_csrf_token(expected: str, presented: Sequence[str]) -> None:
    """Refuse with `forbidden` unless exactly the expected token was presented, once."""
    if len(presented) == 1 and same(expected, presented[0]):
        return
    raise _refused(
        "token",
        "this form has expired or was opened in another browser; go back and try again",
        "the token of the form",
        "another token" if presented else "nothing",
    )


def check_origin(headers: Headers, own: str) -> None:
    """Refuse with `forbidden` a form that a browser says came from elsewhere.

    `own` is this server's origin. Pages here send no referrer, so browsers say `Origin: null` of
    our own forms; that counts as ours only where Sec-Fetch-Site confirms it. Clients that send
    neither header are left to the token.
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
        "this form was sent from another site; open the page here and try again",
        "a request from a page of this server",
        f"{header}: {received[:100]!a}",
    )


def _refused(check: str, description: str, expected: str, received: str) -> Refused:
    return Refused(Refusal(ErrorCode.FORBIDDEN, description, f"csrf.{check}", expected, received))
