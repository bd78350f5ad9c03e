"""Errors as values for clients (`Refusal`), and as exceptions for operators (`OperatorError`).

`raise Refused` rolls the transaction back, if there is one. `return Refusal` commits the
transaction and answers the client with the error.
"""

from enum import StrEnum
from typing import Self

from msgspec import Struct

from valetkey.kernel.text import FilledText

FAILED = "http.failed"
"""The check of a refusal that is a fault of the program; it `received` the reference in the log."""


class ErrorCode(StrEnum):
    """Error codes exactly as in the RFCs; after those, the API's own."""

    INVALID_REQUEST = "invalid_request"  # RFC 6749 sections 4.1.2.1 and 5.2, RFC 6750 section 3.1
    INVALID_CLIENT = "invalid_client", 401  # RFC 6749 section 5.2
    INVALID_GRANT = "invalid_grant"  # RFC 6749 section 5.2
    UNAUTHORIZED_CLIENT = "unauthorized_client"  # RFC 6749 sections 4.1.2.1 and 5.2
    UNSUPPORTED_GRANT_TYPE = "unsupported_grant_type"  # RFC 6749 section 5.2
    INVALID_SCOPE = "invalid_scope"  # RFC 6749 sections 4.1.2.1 and 5.2
    ACCESS_DENIED = "access_denied", 403  # RFC 6749 section 4.1.2.1
    UNSUPPORTED_RESPONSE_TYPE = "unsupported_response_type"  # RFC 6749 section 4.1.2.1
    SERVER_ERROR = "server_error", 500  # RFC 6749 section 4.1.2.1
    TEMPORARILY_UNAVAILABLE = "temporarily_unavailable", 503  # RFC 6749 section 4.1.2.1
    INVALID_TARGET = "invalid_target"  # RFC 8707 section 2
    UNSUPPORTED_TOKEN_TYPE = "unsupported_token_type"  # RFC 7009 section 2.2.1
    INVALID_TOKEN = "invalid_token", 401  # RFC 6750 section 3.1
    INSUFFICIENT_SCOPE = "insufficient_scope", 403  # RFC 6750 section 3.1
    LOGIN_REQUIRED = "login_required"  # OpenID Connect Core section 3.1.2.6
    CONSENT_REQUIRED = "consent_required"  # OpenID Connect Core section 3.1.2.6
    INTERACTION_REQUIRED = "interaction_required"  # OpenID Connect Core section 3.1.2.6
    REQUEST_NOT_SUPPORTED = "request_not_supported"  # OpenID Connect Core section 3.1.2.6
    REQUEST_URI_NOT_SUPPORTED = "request_uri_not_supported"  # OpenID Connect Core section 3.1.2.6
    INVALID_REQUEST_OBJECT = "invalid_request_object"  # OpenID Connect Core section 3.1.2.6
    INVALID_REQUEST_URI = "invalid_request_uri"  # OpenID Connect Core section 3.1.2.6
    REGISTRATION_NOT_SUPPORTED = "registration_not_supported"  # OpenID Connect Core section 3.1.2.6
    # OpenID Connect Core Error Code of that name 1.0
    UNMET_AUTHENTICATION_REQUIREMENTS = "unmet_authentication_requirements"
    INVALID_REDIRECT_URI = "invalid_redirect_uri"  # RFC 7591 section 3.2.2
    INVALID_CLIENT_METADATA = "invalid_client_metadata"  # RFC 7591 section 3.2.2
    INVALID_SOFTWARE_STATEMENT = "invalid_software_statement"  # RFC 7591 section 3.2.2
    UNAPPROVED_SOFTWARE_STATEMENT = "unapproved_software_statement"  # RFC 7591 section 3.2.2
    AUTHORIZATION_PENDING = "authorization_pending"  # RFC 8628 section 3.5
    EXPIRED_TOKEN = "expired_token"  # RFC 8628 section 3.5
    SLOW_DOWN = "slow_down", 429  # RFC 8628 section 3.5; here for every kind of too many attempts
    # Errors of HTTP itself, named after RFC 9110 section 15.5 and RFC 6585.
    FORBIDDEN = "forbidden", 403
    NOT_FOUND = "not_found", 404
    METHOD_NOT_ALLOWED = "method_not_allowed", 405
    REQUEST_TIMEOUT = "request_timeout", 408
    CONFLICT = "conflict", 409
    PRECONDITION_FAILED = "precondition_failed", 412
    CONTENT_TOO_LARGE = "content_too_large", 413
    URI_TOO_LONG = "uri_too_long", 414
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type", 415
    PRECONDITION_REQUIRED = "precondition_required", 428
    HEADERS_TOO_LARGE = "request_header_fields_too_large", 431

    status: int
    """The HTTP status of a response that is not a redirect: 400 unless given with the code."""

    def __new__(cls, code: str, status: int = 400) -> Self:
        """Return the member of this text, with its status."""
        member = str.__new__(cls, code)
        member._value_ = code
        member.status = status
        return member

    @property
    def heading(self) -> str:
        """The name of the error: "Invalid Token Error" for `invalid_token`."""
        words = self.replace("_", " ").title()
        return words if words.endswith("Error") else f"{words} Error"


class Refusal(Struct, frozen=True):
    """An error response: `code` and `description` go to the client, the rest to the event log.

    `check` names the rule ("code.replayed"); `expected` and `received` are redacted by their author
    and never reach the client. `retry_after` is in seconds, 0 for none. `about` is the id of a
    registered client that the request named, authenticated or not, for the event log. `status` is
    the HTTP status where it is not that of the code, 0 otherwise. `leads_to` is where a visitor can
    go on, for the button of an error page; "" for nowhere in particular. `translatable` is the
    description as a `FilledText` if it has values; "" otherwise.
    """

    code: ErrorCode
    description: str
    check: str = ""
    expected: str = ""
    received: str = ""
    retry_after: int = 0
    about: str = ""
    status: int = 0
    leads_to: str = ""
    translatable: str = ""

    @property
    def text(self) -> str:
        """The description for a page, which translates it."""
        return self.translatable or self.description


class Refused(Exception):
    """Raise a refusal out of a parser or a pure rule."""

    def __init__(self, refusal: Refusal) -> None:
        """Store `refusal`; only its description is printed."""
        super().__init__(f"{refusal.code}: {refusal.description}")
        self.refusal = refusal

    @classmethod
    def because(
        cls,
        code: ErrorCode,
        description: str,
        check: str = "",
        expected: str = "",
        received: str = "",
        *,
        retry_after: int = 0,
        about: str = "",
    ) -> Self:
        """Return the exception for this refusal; `description` may be a `FilledText`."""
        return cls(
            Refusal(
                *(code, str(description), check, expected, received, retry_after, about),
                translatable=description if isinstance(description, FilledText) else "",
            )
        )


class OperatorError(Exception):
    """An error for an operator to correct: one sentence with what would be valid, and where."""

    def __init__(self, message: str, setting: str = "") -> None:
        """Store `message` about `setting`, spelled as in the configuration file."""
        super().__init__(f"{setting}: {message}" if setting else message)
        self.message = message
        self.setting = setting
