"""How pages name the configuration of this server in the commands that they show."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from valetkey.config.agreement import is_loopback
from valetkey.config.load import USUAL_FILE
from valetkey.config.settings import Settings


@dataclass(frozen=True, slots=True)
class Configuration:
    """The configuration file of this server; `path` is "" where commands find it by themselves."""

    path: str = ""
    #: Everyone who reaches the server is on its machine.
    is_local: bool = False

    def shown(self, *, administers: bool) -> str:
        """What `--config` takes on a page: the path, quoted for a shell, or FILE.

        Paths of a server in public are shown to administrators only.
        """
        if not self.path:
            return ""
        return shlex.quote(self.path) if administers or self.is_local else "FILE"


UNNAMED = Configuration()
"""No configuration has to be named."""


def configuration_of(settings: Settings) -> Configuration:
    """The configuration of a server with these settings, started in the working directory."""
    file = settings.source.file
    if file is None or file == Path.cwd() / USUAL_FILE:
        return UNNAMED
    host = urlsplit(settings.authorization.url).hostname or ""
    return Configuration(str(file), is_loopback(host))
