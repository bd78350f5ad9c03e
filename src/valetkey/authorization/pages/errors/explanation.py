"""The pages at /errors/<code> and /errors/: what each error code means and how to mend it."""

from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.pages.errors.text import ErrorText
from valetkey.authorization.pages.errors.texts import TEXTS
from valetkey.kernel.refusal import STATUS, ErrorCode


@dataclass(frozen=True, slots=True)
class ErrorExplanationPage:
    """Explain one code to anyone."""

    template: ClassVar[str] = "errors/explanation.html"

    code: ErrorCode
    #: The HTTP status that goes with it where the answer is not a redirect.
    status: int
    text: ErrorText
    #: The reference of one refusal, "" for none.
    reference: str = ""


@dataclass(frozen=True, slots=True)
class ErrorIndexPage:
    """List all codes, each with its one-line meaning."""

    template: ClassVar[str] = "errors/index.html"

    texts: tuple[tuple[ErrorCode, ErrorText], ...]


def explanation_of(code: str, reference: str = "") -> ErrorExplanationPage | None:
    """The page for a code as it is spelled in an address; None for one that is not ours."""
    try:
        known = ErrorCode(code)
    except ValueError:
        return None
    return ErrorExplanationPage(known, STATUS[known], TEXTS[known], reference)


def error_index() -> ErrorIndexPage:
    """The page that lists them all."""
    return ErrorIndexPage(tuple((code, TEXTS[code]) for code in ErrorCode))
