"""Signing out by the letter: RP-Initiated Logout 1.0, and what Session Management 1.0 computes."""

from hashlib import sha256


def session_state(client_id: str, origin: str, browser_state: str, salt: str) -> str:
    """The `session_state` of an authentication response: `<hash>.<salt>` (section 3.2).

    `origin` is that of the redirect URI (`kernel.url.origin`), `browser_state` what
    `Cookies.browser_state` says of the session, `salt` is fresh and without a dot.
    """
    return f"{sha256(f'{client_id} {origin} {browser_state} {salt}'.encode()).hexdigest()}.{salt}"
