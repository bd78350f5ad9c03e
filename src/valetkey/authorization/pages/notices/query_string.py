"""The page behind the Deprecation notice of requests with secrets in their URL."""

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class QueryStringPage:
    """Say why a secret does not belong in a URL, and how to move it. Paths are examples."""

    template: ClassVar[str] = "notices/query_string.html"

    token_url: str
