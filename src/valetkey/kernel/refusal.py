"""Errors as values: refusals for clients, mistakes for operators.

`raise Refused` rolls the transaction back, if there is one. `return Refusal` commits the
transaction and answers the client with the error.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType


class ErrorCode(StrEnum):
    """Error codes exactly as in the RFCs; after those, the API's own."""

    INVALID_REQUEST = "invalid_request"  # RFC 6749 sections 4.1.2.1 and 5.2, RFC 6750 section 3.1
    INVALID_CLIENT = "invalid_client"  # RFC 6749 section 5.2
    INVALID_GRANT = "invalid_grant"  # RFC 6749 section 5.2
    UNAUTHORIZED_CLIENT = "unauthorized_client"  # RFC 6749 sections 4.1.2.1 and 5.2
    UNSUPPORTED_GRANT_TYPE = "unsupported_grant_type"  # RFC 6749 section 5.2
    INVALID_SCOPE = "invalid_scope"  # RFC 6749 sections 4.1.2.1 and 5.2
    ACCESS_DENIED = "access_denied"  # RFC 6749 section 4.1.2.1
    UNSUPPORTED_RESPONSE_TYPE = "unsupported_response_type"  # RFC 6749 section 4.1.2.1
    SERVER_ERROR = "server_error"  # RFC 6749 section 4.1.2.1
    TEMPORARILY_UNAVAILABLE = "temporarily_unavailable"  # RFC 6749 section 4.1.2.1
    INVALID_TARGET = "invalid_target"  # RFC 8707 section 2
    UNSUPPORTED_TOKEN_TYPE = "unsupported_token_type"  # RFC 7009 section 2.2.1
    INVALID_TOKEN = "invalid_token"  # RFC 6750 section 3.1
    INSUFFICIENT_SCOPE = "insufficient_scope"  # RFC 6750 section 3.1
    LOGIN_REQUIRED = "login_required"  # OpenID Connect Core section 3.1.2.6
    CONSENT_REQUIRED = "consent_required"  # OpenID Connect Core section 3.1.2.6
    INTERACTION_REQUIRED = "interaction_required"  # OpenID Connect Core section 3.1.2.6
    REQUEST_NOT_SUPPORTED = "request_not_supported"  # OpenID Connect Core section 3.1.2.6
    REQUEST_URI_NOT_SUPPORTED = "request_uri_not_supported"  # OpenID Connect Core section 3.1.2.6
    INVALID_REQUEST_OBJECT = "invalid_request_object"  # OpenID Connect Core section 3.1.2.6
    INVALID_REQUEST_URI = "invalid_request_uri"  # OpenID Connect Core section 3.1.2.6
    REGISTRATION_NOT_SUPPORTED = "registration_not_supported"  # OpenID Connect Core section 3.1.2.6
    UNMET_AUTHENTICATION_REQUIREMENTS = (
        "unmet_authentication_requirements"  # OpenID Connect Core Error Code of that name 1.0
    )
    INVALID_REDIRECT_URI = "invalid_redirect_uri"  # RFC 7591 section 3.2.2
    INVALID_CLIENT_METADATA = "invalid_client_metadata"  # RFC 7591 section 3.2.2
    INVALID_SOFTWARE_STATEMENT = "invalid_software_statement"  # RFC 7591 section 3.2.2
    UNAPPROVED_SOFTWARE_STATEMENT = "unapproved_software_statement"  # RFC 7591 section 3.2.2
    AUTHORIZATION_PENDING = "authorization_pending"  # RFC 8628 section 3.5
    EXPIRED_TOKEN = "expired_token"  # RFC 8628 section 3.5
    SLOW_DOWN = "slow_down"  # RFC 8628 section 3.5; here for every kind of too many attempts
    # Errors of HTTP itself, named after RFC 9110 section 15.5 and RFC 6585.
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    REQUEST_TIMEOUT = "request_timeout"
    CONFLICT = "conflict"
    PRECONDITION_FAILED = "precondition_failed"
    CONTENT_TOO_LARGE = "content_too_large"
    URI_TOO_LONG = "uri_too_long"
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type"
    PRECONDITION_REQUIRED = "precondition_required"
    HEADERS_TOO_LARGE = "request_header_fields_too_large"


STATUS: Mapping[ErrorCode, int] = MappingProxyType(
    {
        ErrorCode.INVALID_REQUEST: 400,
        ErrorCode.INVALID_CLIENT: 401,
        ErrorCode.INVALID_GRANT: 400,
        ErrorCode.UNAUTHORIZED_CLIENT: 400,
        ErrorCode.UNSUPPORTED_GRANT_TYPE: 400,
        ErrorCode.INVALID_SCOPE: 400,
        ErrorCode.ACCESS_DENIED: 403,
        ErrorCode.UNSUPPORTED_RESPONSE_TYPE: 400,
        ErrorCode.SERVER_ERROR: 500,
        ErrorCode.TEMPORARILY_UNAVAILABLE: 503,
        ErrorCode.INVALID_TARGET: 400,
        ErrorCode.UNSUPPORTED_TOKEN_TYPE: 400,
        ErrorCode.INVALID_TOKEN: 401,
        ErrorCode.INSUFFICIENT_SCOPE: 403,
        ErrorCode.LOGIN_REQUIRED: 400,
        ErrorCode.CONSENT_REQUIRED: 400,
        ErrorCode.INTERACTION_REQUIRED: 400,
        ErrorCode.REQUEST_NOT_SUPPORTED: 400,
        ErrorCode.REQUEST_URI_NOT_SUPPORTED: 400,
        ErrorCode.INVALID_REQUEST_OBJECT: 400,
        ErrorCode.INVALID_REQUEST_URI: 400,
        ErrorCode.REGISTRATION_NOT_SUPPORTED: 400,
        ErrorCode.UNMET_AUTHENTICATION_REQUIREMENTS: 400,
        ErrorCode.INVALID_REDIRECT_URI: 400,
        ErrorCode.INVALID_CLIENT_METADATA: 400,
        ErrorCode.INVALID_SOFTWARE_STATEMENT: 400,
        ErrorCode.UNAPPROVED_SOFTWARE_STATEMENT: 400,
        ErrorCode.AUTHORIZATION_PENDING: 400,
        ErrorCode.EXPIRED_TOKEN: 400,
        ErrorCode.SLOW_DOWN: 429,
        ErrorCode.FORBIDDEN: 403,
        ErrorCode.NOT_FOUND: 404,
        ErrorCode.METHOD_NOT_ALLOWED: 405,
        ErrorCode.REQUEST_TIMEOUT: 408,
        ErrorCode.CONFLICT: 409,
        ErrorCode.PRECONDITION_FAILED: 412,
        ErrorCode.CONTENT_TOO_LARGE: 413,
        ErrorCode.URI_TOO_LONG: 414,
        ErrorCode.UNSUPPORTED_MEDIA_TYPE: 415,
        ErrorCode.PRECONDITION_REQUIRED: 428,
        ErrorCode.HEADERS_TOO_LARGE: 431,
    }
)
"""The HTTP status of each code where the response is not a redirect."""


def title(code: ErrorCode) -> str:
    """Return the name of the error: "Invalid Token Error" for `invalid_token`."""
    words = code.replace("_", " ").title()
    return words if words.endswith("Error") else f"{words} Error"


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error response: `code` and `description` go to the client, the rest to the event log.

    `check` names the rule ("code.replayed"); `expected` and `received` are redacted by their author
    and never reach the client. `retry_after` is in seconds, 0 for none. `about` is the id of a
    registered client that the request named, authenticated or not, for the event log. `status` is
    the HTTP status where it is not that of the code, 0 otherwise.
    """

    code: ErrorCode
    description: str
    check: str = ""
    expected: str = ""
    received: str = ""
    retry_after: int = 0
    about: str = ""
    status: int = 0


class Refused(Exception):
    """Raise a refusal out of a parser or a pure rule."""

    def __init__(self, refusal: Refusal) -> None:
        """Hold `refusal`; only its description is printed."""
        super().__init__(f"{refusal.code}: {refusal.description}")
        self.refusal = refusal


class Mistake(Exception):
    """An operator's error: one sentence that says what would be valid, and the setting's name."""

    def __init__(self, message: str, setting: str = "") -> None:
        """Hold `message` about `setting`, spelled as in the configuration file."""
        super().__init__(f"{setting}: {message}" if setting else message)
        self.message = message
        self.setting = setting
