"""Which paths of this server a visitor may be sent back to after signing in."""

import re

_LONGEST = 500
# A path of our own areas, and nothing that a browser or a proxy could read as another place.
_OWN = re.compile(
    r"/(?:account|developer|admin|device)(?:/(?!\.{1,2}(?:/|\Z))[A-Za-z0-9_.~-]{1,100}){0,8}",
    re.ASCII,
)


def safe_return_path(text: str | None) -> str:
    """The path, if it is one of our areas for people who are signed in; else ""."""
    if text is None or len(text) > _LONGEST:
        return ""
    return text if _OWN.fullmatch(text) else ""
