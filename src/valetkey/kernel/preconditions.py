"""Conditional requests that prevent lost updates (RFC 9110 section 13)."""

import re
from collections.abc import Sequence
from hashlib import sha256

from msgspec import Struct

from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.secret import to_base64url

_ETAG = r'(?:W/)?"[\x21\x23-\x7e]*"'
_ETAGS = re.compile(rf"[ \t]*{_ETAG}(?:[ \t]*,[ \t]*{_ETAG})*[ \t]*", re.ASCII)
_EACH = re.compile(_ETAG, re.ASCII)
_LONGEST = 4_096

FAILED = Refusal(
    ErrorCode.PRECONDITION_FAILED,
    "it was changed since you read it: read it again, then repeat your change",
    "precondition.failed",
    "the current ETag",
    "another one",
)
REQUIRED = Refusal(
    ErrorCode.PRECONDITION_REQUIRED,
    "send If-Match with the ETag of the state that you read",
    "precondition.missing",
    "If-Match",
)


class Preconditions(Struct, frozen=True):
    """The caller's conditions on the current state; None where there is no condition.

    The tags are as they were sent; an empty tuple means `*`.
    """

    match: tuple[str, ...] | None = None
    none_match: tuple[str, ...] | None = None

    def check(self, etag: str | None) -> None:
        """Raise Refused (412) unless a resource with `etag` may be changed; None: no resource."""
        # Strong comparison: a weak tag does not guarantee identical bytes.
        if self.match is not None and (
            etag is None or (self.match != () and etag not in self.match)
        ):
            raise Refused(FAILED)
        if self.none_match is not None and etag is not None and self.lists(etag):
            raise Refused(FAILED)

    def lists(self, etag: str) -> bool:
        """Return whether If-None-Match lists this tag; weak tags count (304)."""
        if self.none_match is None:
            return False
        return not self.none_match or etag in {tag.removeprefix("W/") for tag in self.none_match}


NO_PRECONDITIONS = Preconditions()


def preconditions(match: Sequence[str], none_match: Sequence[str]) -> Preconditions:
    """Parse the values of If-Match and If-None-Match.

    Raises Refused (400) for a value that is not a list of tags.
    """
    if not match and not none_match:
        return NO_PRECONDITIONS
    return Preconditions(_tags("If-Match", match), _tags("If-None-Match", none_match))


def etag_of(content: bytes) -> str:
    """Return a strong tag for a representation without a version of its own."""
    return f'"{to_base64url(sha256(content).digest()[:16])}"'


def _tags(name: str, fields: Sequence[str]) -> tuple[str, ...] | None:
    if not fields:
        return None
    text = ", ".join(fields)
    if text.strip(" \t") == "*":
        return ()
    if len(text) > _LONGEST or _ETAGS.fullmatch(text) is None:
        raise Refused.because(
            ErrorCode.INVALID_REQUEST,
            f"{name} must be * or a list of entity tags in double quotes",
            "precondition.malformed",
        )
    return tuple(_EACH.findall(text))
