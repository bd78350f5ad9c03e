"""Explained: HTTP's own ways to say no (RFC 9110 section 15.5; RFC 6585)."""

from collections.abc import Mapping
from types import MappingProxyType

from valetkey.authorization.site.errors.text import (
    ErrorText,
    Example,
    developer,
    operator,
    rfc,
    visitor,
)
from valetkey.kernel.refusal import ErrorCode

HTTP: Mapping[ErrorCode, ErrorText] = MappingProxyType(
    {
        ErrorCode.NOT_FOUND: ErrorText(
            "There is nothing at this address.",
            (
                "The address is misspelt, or has a slash too many at its end.",
                "The record was deleted, or belongs to somebody else.",
                "The version in the path does not exist.",
            ),
            (
                developer("Compare the address with the server's metadata, letter for letter."),
                visitor("Go back, or start again from the app."),
            ),
            Example(
                "Where this server's addresses are listed",
                "curl https://auth.example/.well-known/oauth-authorization-server",
            ),
            *rfc(9110, "15.5.5"),
        ),
        ErrorCode.METHOD_NOT_ALLOWED: ErrorText(
            "The address exists, but not for this method.",
            (
                "A token was asked for with GET; it takes POST.",
                "The record cannot be changed or deleted in this way.",
            ),
            (developer("Use one of the methods that the Allow header of the answer names."),),
            Example(
                "The methods that would work",
                """\
HTTP/1.1 405 Method Not Allowed
Allow: POST""",
            ),
            *rfc(9110, "15.5.6"),
        ),
        ErrorCode.REQUEST_TIMEOUT: ErrorText(
            "The request took too long to arrive.",
            (
                "The connection is slow or was interrupted.",
                "Content-Length promises more bytes than were sent.",
            ),
            (
                developer(
                    "Send the whole request at once: the header within 10 seconds, the body within"
                    " 15."
                ),
                visitor("Check your connection and try again."),
            ),
            Example(
                "A length that is counted for you",
                "curl --data @body.json https://api.example/v2/notes",
            ),
            *rfc(9110, "15.5.9"),
        ),
        ErrorCode.CONTENT_TOO_LARGE: ErrorText(
            "The body of the request is larger than this server reads.",
            ("A form is larger than 64 KiB, or a JSON body larger than 1 MiB.",),
            (developer("Send less at once."),),
            Example("How large a body is, in bytes", "wc -c < body.json"),
            *rfc(9110, "15.5.14"),
        ),
        ErrorCode.URI_TOO_LONG: ErrorText(
            "The address of the request is longer than this server reads.",
            ("The address with its parameters has more than 8 KiB.",),
            (developer("Keep state short: store the rest yourself and send its name only."),),
            Example("A name in place of the whole", "state=x9Qm2RTDk7"),
            *rfc(9110, "15.5.15"),
        ),
        ErrorCode.UNSUPPORTED_MEDIA_TYPE: ErrorText(
            "The body of the request is of a kind that this address does not read.",
            (
                "A token was asked for with JSON; it takes a form.",
                "Content-Type is missing, or the body is compressed.",
            ),
            (
                developer(
                    "Send application/x-www-form-urlencoded to the authorization server and"
                    " application/json to the API, neither compressed."
                ),
            ),
            Example(
                "The header of a form",
                "Content-Type: application/x-www-form-urlencoded",
            ),
            *rfc(9110, "15.5.16"),
        ),
        ErrorCode.HEADERS_TOO_LARGE: ErrorText(
            "The header of the request is larger than this server reads.",
            (
                "Cookies of other services on the same domain have piled up.",
                "A header carries a large token.",
            ),
            (
                visitor("Delete the cookies of this site and try again."),
                developer("Send fewer and shorter headers."),
                operator("Serve this server from a domain of its own, without others' cookies."),
            ),
            Example("A domain of its own", 'url = "https://auth.example"'),
            *rfc(6585, "5"),
        ),
    }
)
"""The text of each of them."""
