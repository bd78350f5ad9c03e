"""The operator at the command line, as events name them."""

import os
import pwd
import re

_PLAIN = re.compile(r"[A-Za-z0-9._@+-]{1,64}", re.ASCII)


def operator() -> str:
    """Return the system account of this process, such as `root`, or its number without a name.

    If the terminal's login is another one, both: `root login ada`. It tells operators apart; it
    proves nothing, because they can write to the database themselves.
    """
    number = os.getuid()
    try:
        name = pwd.getpwuid(number).pw_name
    except KeyError:
        name = ""
    name = name if _PLAIN.fullmatch(name) else str(number)
    try:
        login = os.getlogin()
    except OSError:
        # No terminal: a unit, a container, a job.
        return name
    return f"{name} login {login}" if login != name and _PLAIN.fullmatch(login) else name
