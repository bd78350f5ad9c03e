"""The setting of the documentation: where pages link to."""

from dataclasses import dataclass
from typing import Annotated

from valetkey.config import rules


@dataclass(frozen=True, slots=True)
class DocumentationSettings:
    """The documentation that pages and commands link to."""

    url: Annotated[str, rules.LINK] = ""
    """URL of a copy of the documentation site. Empty: the authorization server serves its own copy
    under `/docs/`, the one of its version. With a URL it serves none."""
