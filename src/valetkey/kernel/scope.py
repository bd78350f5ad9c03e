"""OAuth scopes: parse, narrow, compare (RFC 6749 section 3.3)."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from valetkey.kernel.refusal import ErrorCode, Refused

LONGEST = 1_000
"""Maximum number of characters in a scope parameter."""

MOST = 100
"""Maximum number of names in a scope."""

# Split on 0x20 only: str.split() would also split on U+00A0 and 0x1C.
_LIST = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+(?: [\x21\x23-\x5b\x5d-\x7e]+)*")


@dataclass(frozen=True, slots=True, eq=False)
class Scope:
    """An ordered set of scope names, each once; comparison ignores the order.

    Create one with `Scope.parse` or `Scope.of`; the constructor does not validate its argument.
    """

    names: tuple[str, ...] = ()

    @staticmethod
    def parse(text: str) -> "Scope":
        """Parse the scope of a request parameter; "" is the empty scope.

        Refused with `invalid_scope` above 1,000 characters or 100 names, and for anything but names
        of the RFC's characters separated by one space.
        """
        if not text:
            return Scope()
        if len(text) > LONGEST:
            raise _refused("scope.long", f"at most {LONGEST} characters", f"{len(text)} characters")
        if _LIST.fullmatch(text) is None:
            raise _refused("scope.malformed", "names separated by single spaces", "other text")
        names = tuple(dict.fromkeys(text.split(" ")))
        if len(names) > MOST:
            raise _refused("scope.many", f"at most {MOST} names", f"{len(names)} names")
        return Scope(names)

    @staticmethod
    def of(*names: str) -> "Scope":
        """Return the scope of these names, validated as by `parse`."""
        if any(not name or " " in name for name in names):
            raise _refused("scope.malformed", "names without spaces", "other text")
        return Scope.parse(" ".join(names))

    def __and__(self, other: "Scope") -> "Scope":
        """Return the names in both scopes, in this scope's order."""
        if self.names == other.names:
            return self
        return Scope(tuple([name for name in self.names if name in other.names]))

    def __or__(self, other: "Scope") -> "Scope":
        """Return the names in either scope, this scope's first."""
        return Scope(tuple(dict.fromkeys(self.names + other.names)))

    def __sub__(self, other: "Scope") -> "Scope":
        """Return the names in this scope that the other lacks."""
        return Scope(tuple([name for name in self.names if name not in other.names]))

    def __le__(self, other: "Scope") -> bool:
        """Return whether the other scope contains every name of this one."""
        return self.names == other.names or frozenset(other.names).issuperset(self.names)

    def __eq__(self, other: object) -> bool:
        """Return whether both scopes contain equal names, in any order."""
        if not isinstance(other, Scope):
            return NotImplemented
        return self.names == other.names or frozenset(self.names) == frozenset(other.names)

    def __hash__(self) -> int:
        """Return an equal hash for equal scopes."""
        return hash(frozenset(self.names))

    def __contains__(self, name: object) -> bool:
        """Return whether `name` is in the scope."""
        return name in self.names

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names in order."""
        return iter(self.names)

    def __len__(self) -> int:
        """Return the number of names."""
        return len(self.names)

    def __bool__(self) -> bool:
        """Return whether the scope contains any name."""
        return bool(self.names)

    def __str__(self) -> str:
        """Return the names separated by one space, as requests and tokens carry them."""
        return " ".join(self.names)


def _refused(check: str, expected: str, received: str) -> Refused:
    description = "the scope must be names separated by single spaces"
    return Refused.because(ErrorCode.INVALID_SCOPE, description, check, expected, received)
