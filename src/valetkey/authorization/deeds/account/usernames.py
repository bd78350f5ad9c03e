"""User names that people choose themselves: none that reads like another's, or like this server's.

Whoever runs the server may give any name: scripts other than the Latin one, too.
"""

import re
from collections.abc import Iterable

from valetkey.authorization.model.account.user import fold
from valetkey.authorization.protocol.register.names import RESERVED

_CHOOSABLE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,38}[A-Za-z0-9]", re.ASCII)


def is_choosable(username: str) -> bool:
    """Whether it is made of 3 to 40 letters and digits that nobody takes for others."""
    return _CHOOSABLE.fullmatch(username) is not None


def is_reserved(username: str, more: Iterable[str] = ()) -> bool:
    """Whether people would take its bearer for this server, or for one of `more`."""
    return fold(username) in {fold(word) for word in (*RESERVED, *more)}
