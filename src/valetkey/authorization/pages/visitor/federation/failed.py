"""The other server did not confirm who somebody is."""

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class FailedPage:
    """Say that nothing happened, and lead back."""

    template: ClassVar[str] = "visitor/federation/failed.html"

    provider: str
    #: Where to try again, or another way.
    back: str
    #: Names the record that says more; empty where nothing was wrong.
    reference: str = ""
    #: The person said no over there.
    declined: bool = False
