"""Explained: the codes of token, revocation and registration requests (RFC 6749 section 5.2)."""

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

_PLAIN_REGISTRATION = Example(
    "A registration without a statement",
    """\
curl https://auth.example/oauth/register \\
    -H "Content-Type: application/json" \\
    -d '{"redirect_uris": ["https://app.example/cb"]}'""",
)

_POLL = Example(
    "A device that polls",
    """\
curl https://auth.example/oauth/token -d client_id="$CLIENT_ID" \\
    -d device_code="$DEVICE_CODE" \\
    -d grant_type=urn:ietf:params:oauth:grant-type:device_code""",
)

TOKEN: Mapping[ErrorCode, ErrorText] = MappingProxyType(
    {
        ErrorCode.INVALID_CLIENT: ErrorText(
            "The server could not tell that the request comes from this client.",
            (
                "The client_id is unknown, or the client_secret is not its secret.",
                "The secret was rotated and its time of overlap is over.",
                "No credentials came, or they came in a way this client is not registered for.",
                "In HTTP Basic, id and secret were not percent-encoded before they were joined.",
                "The clock of a private_key_jwt client is wrong, or its assertion was used before.",
            ),
            (
                developer(
                    "Check id and secret for missing letters and spaces. Send them once: in the"
                    " body or with HTTP Basic, not both."
                ),
                operator("Give the client a new secret; the old one works on for a while."),
            ),
            Example(
                "Credentials with HTTP Basic",
                """\
curl -u "$CLIENT_ID:$CLIENT_SECRET" \\
    -d grant_type=client_credentials https://auth.example/oauth/token""",
            ),
            *rfc(6749, "5.2"),
        ),
        ErrorCode.INVALID_GRANT: ErrorText(
            "The code, refresh token or password is wrong, over, or belongs elsewhere.",
            (
                "The code is older than a minute, or was redeemed before.",
                "The redirect_uri differs from the one in the authorization request.",
                "The code_verifier does not match the code_challenge.",
                "The refresh token is over, was replaced by a newer one, or was used twice.",
                "The person ended the app's access or changed their password.",
                "The code or token was issued to another client.",
            ),
            (
                developer(
                    "Redeem a code once and at once. Keep the newest refresh token, and let only"
                    " one worker refresh at a time. Otherwise send the person to sign in again."
                ),
                visitor("Sign in again from the app."),
            ),
            Example(
                "A code exchanged",
                """\
curl -u "$CLIENT_ID:$CLIENT_SECRET" https://auth.example/oauth/token \\
    -d grant_type=authorization_code -d code="$CODE" \\
    --data-urlencode redirect_uri=https://app.example/cb \\
    -d code_verifier="$VERIFIER" """.rstrip(),
            ),
            *rfc(6749, "5.2"),
        ),
        ErrorCode.UNSUPPORTED_GRANT_TYPE: ErrorText(
            "The grant_type is not one that this address serves.",
            (
                "grant_type is misspelt.",
                "It was sent to /token, which serves client_credentials alone.",
            ),
            (
                developer(
                    "Send every grant type but client_credentials to /oauth/token. The metadata"
                    " lists those that exist under grant_types_supported."
                ),
            ),
            Example(
                "The address for all grant types",
                "POST https://auth.example/oauth/token",
            ),
            *rfc(6749, "5.2"),
        ),
        ErrorCode.UNSUPPORTED_TOKEN_TYPE: ErrorText(
            "This server cannot revoke tokens of this kind.",
            ("The token that was sent is of a kind that cannot be called back.",),
            (
                developer(
                    "Revoke the refresh token: the access tokens that came from it end with it."
                ),
            ),
            Example(
                "A refresh token revoked",
                """\
curl -u "$CLIENT_ID:$CLIENT_SECRET" -d token="$REFRESH_TOKEN" \\
    https://auth.example/oauth/revoke""",
            ),
            *rfc(7009, "2.2.1"),
        ),
        ErrorCode.AUTHORIZATION_PENDING: ErrorText(
            "The user has not yet entered the code of the device.",
            ("The device polls while the user signs in: this is not a failure.",),
            (developer("Poll again after `interval` seconds, until there is another answer."),),
            _POLL,
            *rfc(8628, "3.5"),
        ),
        ErrorCode.EXPIRED_TOKEN: ErrorText(
            "The code of the device has expired.",
            ("The user did not enter the code, or did not allow the app, in time.",),
            (
                developer("Stop polling, and request a new code when the user wants to."),
                visitor("Start again on the device for a new code."),
            ),
            _POLL,
            *rfc(8628, "3.5"),
        ),
        ErrorCode.SLOW_DOWN: ErrorText(
            "Too many attempts in a short time.",
            (
                "A secret or password was wrong several times in a row.",
                "The app asks for tokens much more often than they expire.",
                "A device polls sooner than after `interval` seconds; it must add 5 from then on.",
                "Many people or programs share one address.",
            ),
            (
                developer(
                    "Wait for as long as Retry-After says. Keep an access token until it expires"
                    " instead of asking for a new one with each call."
                ),
                visitor("Wait for the time that the page names, then try again."),
                operator(
                    "If your own proxy stands in front, declare it in trusted_proxies: otherwise"
                    " all visitors look like one."
                ),
            ),
            Example(
                "How long to wait, in seconds",
                """\
HTTP/1.1 429 Too Many Requests
Retry-After: 30""",
            ),
            *rfc(6585, "4"),
        ),
        ErrorCode.INVALID_REDIRECT_URI: ErrorText(
            "A redirect URI cannot be registered as it is.",
            (
                "It is http and not on the app's own device.",
                "It has a fragment, a username, a wildcard, or capital letters in its host.",
                "Its scheme is private and the app is not native, or has no dot in it.",
                "It leads back to this server.",
            ),
            (
                developer(
                    "Register the exact address that you will send: https, or http on 127.0.0.1,"
                    " [::1] or localhost while you build."
                ),
            ),
            Example(
                "Addresses that can be registered",
                """\
https://app.example/oauth/callback
http://127.0.0.1:8080/callback
com.example.app:/callback        (native apps)""",
            ),
            *rfc(7591, "3.2.2"),
        ),
        ErrorCode.INVALID_CLIENT_METADATA: ErrorText(
            "A value of the client's registration cannot be accepted.",
            (
                "A field is unknown, of the wrong kind, or too long.",
                "Two fields contradict each other, such as a public client with a secret.",
            ),
            (developer("Read error_description: it names the field and what it may be."),),
            Example(
                "A change of a client's own record",
                """\
curl -X PATCH https://api.example/v2/client \\
    -H "Authorization: Bearer $TOKEN" \\
    -H "Content-Type: application/merge-patch+json" \\
    -d '{"description": "Prints your notes"}'""",
            ),
            *rfc(7591, "3.2.2"),
        ),
        ErrorCode.INVALID_SOFTWARE_STATEMENT: ErrorText(
            "The software statement of a registration is not a signed statement at all.",
            ("The member software_statement is not a JWT in compact form.",),
            (developer("Leave software_statement out: say the same as members of the request."),),
            _PLAIN_REGISTRATION,
            *rfc(7591, "3.2.2"),
        ),
        ErrorCode.UNAPPROVED_SOFTWARE_STATEMENT: ErrorText(
            "Nobody whose software statements this server believes has made this one.",
            ("This server believes no maker of software statements.",),
            (
                developer("Leave software_statement out: say the same as members of the request."),
                operator(
                    "To let only certain developers register apps, give them a token.",
                    "registration invite",
                ),
            ),
            _PLAIN_REGISTRATION,
            *rfc(7591, "3.2.2"),
        ),
    }
)
"""The text of each of them."""
