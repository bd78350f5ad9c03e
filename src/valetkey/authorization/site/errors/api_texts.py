"""Explained: the codes a resource server answers with (RFC 6750; RFC 9110 section 15.5)."""

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

API: Mapping[ErrorCode, ErrorText] = MappingProxyType(
    {
        ErrorCode.INVALID_TOKEN: ErrorText(
            "The access token is over, revoked, or not one of this server's.",
            (
                "The access token has expired: expires_in said how long it lasts.",
                "The person ended the app's access, or it was revoked.",
                "The token is cut short, or is not an access token but another one.",
                "The token was issued for another API.",
            ),
            (
                developer(
                    "Get a new access token with the refresh token, once, and repeat the call. If"
                    " that is refused with invalid_grant, send the person to sign in again."
                ),
                operator(
                    "If every token is refused, compare the clocks of both servers.",
                    "doctor",
                ),
            ),
            Example(
                "A new access token",
                """\
curl -u "$CLIENT_ID:$CLIENT_SECRET" https://auth.example/oauth/token \\
    -d grant_type=refresh_token -d refresh_token="$REFRESH_TOKEN" """.rstrip(),
            ),
            *rfc(6750, "3.1"),
        ),
        ErrorCode.INSUFFICIENT_SCOPE: ErrorText(
            "The access token is good, but what it allows does not include this.",
            (
                "The app did not ask for the scope that this call needs.",
                "The person cleared its box on the consent page.",
                "A client's own token was used where a person's is needed, or the reverse.",
            ),
            (
                developer(
                    "Read the scope in WWW-Authenticate and send the person to allow it. Compare"
                    " with scope in the token response: it says what was granted."
                ),
                visitor("Allow it when the app asks again, if you want the app to do this."),
            ),
            Example(
                "What is missing",
                """\
HTTP/1.1 403 Forbidden
WWW-Authenticate: Bearer error="insufficient_scope", scope="notes:write\"""",
            ),
            *rfc(6750, "3.1"),
        ),
        ErrorCode.FORBIDDEN: ErrorText(
            "The server understood and will not do it for this caller.",
            (
                "The form came from another site, or its page was open for too long.",
                "The record belongs to somebody else.",
            ),
            (
                visitor("Go back, load the page again, and send the form once more."),
                developer("Do not send this server's forms from your own pages."),
            ),
            Example(
                "A form that this server takes",
                """\
POST /oauth/sign-in
Origin: https://auth.example""",
            ),
            *rfc(9110, "15.5.4"),
        ),
        ErrorCode.CONFLICT: ErrorText(
            "The change contradicts what is there now.",
            (
                "A record with this name or id exists.",
                "The same Idempotency-Key came with another body, or its first call still runs.",
            ),
            (
                developer(
                    "Read the record again and decide. Use a fresh Idempotency-Key for each new"
                    " act, and the same one only to repeat it."
                ),
            ),
            Example(
                "A call that can be repeated without doing it twice",
                """\
curl -X POST https://api.example/v2/notes \\
    -H "Authorization: Bearer $TOKEN" -H "Idempotency-Key: $(uuidgen)" \\
    -H "Content-Type: application/json" -d '{"title": "Milk"}'""",
            ),
            *rfc(9110, "15.5.10"),
        ),
        ErrorCode.PRECONDITION_FAILED: ErrorText(
            "The record has changed since you read it.",
            (
                "If-Match holds an ETag that is no longer the record's.",
                "Somebody else changed it first.",
            ),
            (
                developer(
                    "Read the record again, make your change on the new state, and send it with"
                    " the new ETag."
                ),
            ),
            Example(
                "A change that cannot overwrite another",
                """\
curl -X PATCH https://api.example/v2/notes/$ID \\
    -H "Authorization: Bearer $TOKEN" -H "If-Match: $ETAG" \\
    -H "Content-Type: application/merge-patch+json" \\
    -d '{"title": "Milk and bread"}'""",
            ),
            *rfc(9110, "15.5.13"),
        ),
        ErrorCode.PRECONDITION_REQUIRED: ErrorText(
            "This change must say which state of the record it is meant for.",
            ("The request has no If-Match header.",),
            (developer("Read the record first and send its ETag as If-Match."),),
            Example(
                "A change with its condition",
                """\
PUT /v2/notes/n_4f2a
If-Match: "8c7e1f\"""",
            ),
            *rfc(6585, "3"),
        ),
    }
)
"""The text of each of them."""
