"""The page after a no that cannot be sent back to the app."""

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class DeniedPage:
    """Say that nothing was shared."""

    template: ClassVar[str] = "visitor/denied.html"

    app_name: str
