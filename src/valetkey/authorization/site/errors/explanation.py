"""GET /errors/<code> and /errors/: what each error code means, for anyone."""

from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.actions.developer.failures import plain_reference
from valetkey.authorization.site.errors.texts import TEXTS, ErrorText
from valetkey.authorization.site.page import AnyPage, Outcome, Page, Show, VisitorRequest, anyone
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused


@dataclass(frozen=True, slots=True)
class QueryStringPage:
    """Say why a secret does not belong in a URL, and how to move it. Paths are examples."""

    template: ClassVar[str] = "errors/query_string.html"

    token_url: str


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
    return ErrorExplanationPage(known, known.status, TEXTS[known], reference)


def error_index() -> ErrorIndexPage:
    """The page that lists them all."""
    return ErrorIndexPage(tuple((code, TEXTS[code]) for code in ErrorCode))


@dataclass(frozen=True, slots=True)
class ErrorPages:
    """The explanations that `error_uri` and the Deprecation notice lead to."""

    issuer: str

    def pages(self) -> tuple[AnyPage, ...]:
        """The pages of this feature."""
        return (
            Page("/errors/", anyone, self.index),
            Page("/errors/{code}", anyone, self.explanation),
            Page("/notices/query-string", anyone, self.query_string),
        )

    async def index(self, request: VisitorRequest) -> Outcome:
        """List all error codes with their meaning."""
        return Show(error_index())

    async def explanation(self, request: VisitorRequest) -> Outcome:
        """One code. With the reference of a refusal, it leads to what exactly was wrong."""
        given = request.query.get("reference") or ""
        page = explanation_of(request.arguments["code"], plain_reference(given))
        if page is None:
            raise Refused(
                Refusal(ErrorCode.NOT_FOUND, "this error code does not exist", "errors.code")
            )
        return Show(page)

    async def query_string(self, request: VisitorRequest) -> Outcome:
        """Why secrets do not belong in a URL: where the Deprecation notice leads."""
        return Show(QueryStringPage(f"{self.issuer}/oauth/token"))
