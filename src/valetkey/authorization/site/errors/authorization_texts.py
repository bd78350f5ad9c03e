"""Explained: the codes of the authorization endpoint (RFC 6749 section 4.1.2.1; OpenID Connect)."""

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

_OPENID = (
    "OpenID Connect Core 1.0, section 3.1.2.6",
    "https://openid.net/specs/openid-connect-core-1_0.html#AuthError",
)
_WITHOUT_PROMPT = Example(
    "A request that may show the pages",
    """\
GET /oauth/authorize?response_type=code&client_id=printer
    &redirect_uri=https%3A%2F%2Fapp.example%2Fcb&state=x9Qm""",
)
_PLAIN = Example(
    "A request of plain parameters",
    """\
GET /oauth/authorize?response_type=code&client_id=printer
    &redirect_uri=https%3A%2F%2Fapp.example%2Fcb&scope=openid&state=x9Qm""",
)

AUTHORIZATION: Mapping[ErrorCode, ErrorText] = MappingProxyType(
    {
        ErrorCode.INVALID_REQUEST: ErrorText(
            "A parameter is missing, malformed, given twice, or does not fit the others.",
            (
                "A parameter that this request needs is missing or empty.",
                "One parameter is there twice, or in the address and in the body.",
                "The redirect_uri is not one that the client registered, letter for letter.",
                "The client needs PKCE and there is no code_challenge, or its method is not S256.",
                "The body is not a form, or its characters are not percent-encoded UTF-8.",
            ),
            (
                developer(
                    "Read error_description: it names the parameter. Compare the redirect_uri with"
                    " the registered one, down to the slash at the end."
                ),
                operator(
                    "If the app's developer asks, this command shows what was expected and what"
                    " was received.",
                    "explain REFERENCE",
                ),
                visitor(
                    "Go back to the app and start again. If it happens again, tell the app's"
                    " makers; your account is not affected."
                ),
            ),
            Example(
                "A complete authorization request",
                """\
GET /oauth/authorize?response_type=code&client_id=printer
    &redirect_uri=https%3A%2F%2Fapp.example%2Fcb&scope=read&state=x9Qm
    &code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM
    &code_challenge_method=S256""",
            ),
            *rfc(6749, "4.1.2.1"),
        ),
        ErrorCode.UNAUTHORIZED_CLIENT: ErrorText(
            "The app is known, but it is not registered for what it tried.",
            (
                "The client is not registered for this grant type or response type.",
                "Implicit or password was used, and no administrator turned it on.",
                "The client's profile does not permit it.",
            ),
            (
                developer(
                    "Use the authorization code with PKCE, or ask the operator for the grant type."
                ),
                operator(
                    "Add the grant type to the client, if it should have it. Implicit and password"
                    " are for old apps of your own; the command says what they cost."
                ),
            ),
            Example(
                "A client that may use two grant types, in apply.toml",
                """\
[[clients]]
client_id = "printer"
grant_types = ["authorization_code", "refresh_token"]""",
            ),
            *rfc(6749, "4.1.2.1"),
        ),
        ErrorCode.ACCESS_DENIED: ErrorText(
            "The person, or a rule of this server, said no.",
            (
                "The person pressed Deny on the consent page, or turned back from signing in.",
                "The account is closed or suspended.",
                "A rule of the server does not let this person use this app.",
            ),
            (
                developer(
                    "Take no for an answer: say what works without the access, and offer to ask"
                    " again. Do not start over by yourself."
                ),
                visitor("If you change your mind, start again from the app."),
            ),
            Example(
                "How the answer reaches the app",
                """\
HTTP/1.1 303 See Other
Location: https://app.example/cb?error=access_denied
    &state=x9Qm&iss=https%3A%2F%2Fauth.example""",
            ),
            *rfc(6749, "4.1.2.1"),
        ),
        ErrorCode.UNSUPPORTED_RESPONSE_TYPE: ErrorText(
            "The response_type is not one that this server gives.",
            (
                "response_type is misspelt.",
                "It asks for something that this server does not issue at this address.",
            ),
            (
                developer(
                    "Use response_type=code, unless you know why not. The server's metadata lists"
                    " all that it knows under response_types_supported."
                ),
            ),
            Example(
                "What the server supports",
                "curl https://auth.example/.well-known/oauth-authorization-server",
            ),
            *rfc(6749, "3.1.1"),
        ),
        ErrorCode.INVALID_SCOPE: ErrorText(
            "The scope is unknown, malformed, or more than this app may ask for.",
            (
                "A name in scope is misspelt or does not exist here.",
                "The client is not registered for one of the names.",
                "A refresh asks for more than was granted at first.",
                "The names are not separated by single spaces.",
            ),
            (
                developer(
                    "Ask only for names that the client is registered for. Leave scope out to get"
                    " the client's default."
                ),
                operator("Add the name to the client's scopes, if the app should have it."),
            ),
            Example(
                "Two names, one space between them",
                "scope=notes%3Aread%20account%3Aread",
            ),
            *rfc(6749, "3.3"),
        ),
        ErrorCode.LOGIN_REQUIRED: ErrorText(
            "The app asked not to show any page, and nobody is signed in.",
            (
                "The request says prompt=none and there is no session in this browser.",
                "The session is older than max_age allows.",
                "The browser does not send cookies inside a frame of another site.",
            ),
            (
                developer("Send the person here again without prompt=none, so that they sign in."),
                visitor("Sign in again from the app."),
            ),
            _WITHOUT_PROMPT,
            *_OPENID,
        ),
        ErrorCode.CONSENT_REQUIRED: ErrorText(
            "The app asked not to show any page, and the person has not allowed this yet.",
            (
                "The request says prompt=none and asks for more than was allowed before.",
                "The person ended the app's access, or the app changed its name or terms.",
            ),
            (developer("Send the person here again without prompt=none, so that they can allow."),),
            _WITHOUT_PROMPT,
            *_OPENID,
        ),
        ErrorCode.INTERACTION_REQUIRED: ErrorText(
            "The app asked not to show any page, and the person has something to do first.",
            (
                "The request says prompt=none, but a page has to be shown before it can go on.",
                "The request demands a stronger sign-in than this session had.",
            ),
            (developer("Send the person here again without prompt=none."),),
            _WITHOUT_PROMPT,
            *_OPENID,
        ),
        ErrorCode.UNMET_AUTHENTICATION_REQUIREMENTS: ErrorText(
            "The app insists on a kind of sign-in that this person did not, or cannot, go through.",
            (
                "claims names an essential acr that this server does not know.",
                "The person can sign in only in a way that is none of those the app accepts.",
            ),
            (
                developer(
                    "Ask for a value of acr_values_supported in the server's metadata, or ask for"
                    " it without essential and look at acr in the ID token."
                ),
            ),
            Example(
                "A class of sign-in that would be welcome, and need not be",
                "acr_values=urn%3Avaletkey%3Aacr%3Apassword",
            ),
            "OpenID Connect Core Error Code unmet_authentication_requirements 1.0, section 2",
            "https://openid.net/specs/openid-connect-unmet-authentication-requirements-1_0.html",
        ),
        ErrorCode.REQUEST_NOT_SUPPORTED: ErrorText(
            "The request came as an object without a signature, and this app's must be signed.",
            ("The object at request says alg none, for which the app is not registered.",),
            (
                developer(
                    "Sign the object with a key of the app, or send each parameter by itself, or"
                    " register the app with request_object_signing_alg none."
                ),
            ),
            _PLAIN,
            *_OPENID,
        ),
        ErrorCode.REQUEST_URI_NOT_SUPPORTED: ErrorText(
            "The request is to be fetched from an address, for which the app is not registered.",
            (
                "The app registered no request_uris.",
                "What lies at request_uri is not signed, and the app is not registered for that.",
            ),
            (
                developer(
                    "Register the exact address among the app's request_uris, or send each"
                    " parameter by itself."
                ),
            ),
            _PLAIN,
            *_OPENID,
        ),
        ErrorCode.INVALID_REQUEST_OBJECT: ErrorText(
            "The request came as a signed object that this server cannot take for the app's own.",
            (
                "No key of the app made the signature, or not with the registered algorithm.",
                "iss is not the app, aud is not this server, or its time is over.",
                "client_id or response_type is another inside than beside the object.",
                "It is encrypted, or has a request or a request_uri inside.",
            ),
            (
                developer(
                    "Sign with a key of the app's jwks or jwks_uri and name its kid; let iss be"
                    " the client_id and aud this server's issuer."
                ),
                operator("This command names the rule that failed.", "explain REFERENCE"),
            ),
            Example(
                "What is inside a request object",
                """\
{"iss": "printer", "aud": "https://auth.example", "scope": "openid",
 "client_id": "printer", "response_type": "code",
 "redirect_uri": "https://app.example/cb"}""",
            ),
            *_OPENID,
        ),
        ErrorCode.INVALID_REQUEST_URI: ErrorText(
            "There is no request to be had at the address that the app named.",
            (
                "It is not one of the app's registered request_uris; a fragment does not count.",
                "It did not answer within five seconds with status 200, or with more than 256 KiB.",
                "It lies in a network that this server asks nothing of, or on another port.",
            ),
            (
                developer(
                    "Serve the object by https on port 443 at a registered address, as"
                    " application/oauth-authz-req+jwt and without a redirect."
                ),
            ),
            Example(
                "A request at an address",
                """\
GET /oauth/authorize?client_id=printer&response_type=code&scope=openid
    &request_uri=https%3A%2F%2Fapp.example%2Frequests%2F7Kd2""",
            ),
            *_OPENID,
        ),
        ErrorCode.REGISTRATION_NOT_SUPPORTED: ErrorText(
            "The request brings the registration of its app along, and this server takes none so.",
            ("The request has a parameter registration, as for self-issued identities.",),
            (developer("Register the app once and send its client_id."),),
            _PLAIN,
            *_OPENID,
        ),
        ErrorCode.SERVER_ERROR: ErrorText(
            "Something broke on this server. The request may have been right.",
            ("An error in the server or in what it depends on, logged under the reference.",),
            (
                operator(
                    "Look for the reference in the log of the authorization server, then check"
                    " the installation.",
                    "doctor",
                ),
                developer("Try again after a while. If it stays, give the operator the reference."),
                visitor("Try again after a while. Nothing was shared."),
            ),
            Example(
                "The reference in the answer",
                """\
HTTP/1.1 500 Internal Server Error

{"error": "server_error", "error_uri":
 "https://a.example/errors/server_error?reference=VK-7F3K-9QXM-2RTD"}""",
            ),
            *rfc(6749, "4.1.2.1"),
        ),
        ErrorCode.TEMPORARILY_UNAVAILABLE: ErrorText(
            "The server is busy or being looked after, and will be back.",
            (
                "More work than the server can queue.",
                "The database cannot be reached, or is being moved.",
            ),
            (
                developer(
                    "Wait for as long as Retry-After says, with some chance added, and try again."
                ),
                operator("Find out whether the database or the load is the cause.", "doctor"),
                visitor("Try again in a minute."),
            ),
            Example(
                "How long to wait",
                """\
HTTP/1.1 503 Service Unavailable
Retry-After: 1""",
            ),
            *rfc(6749, "4.1.2.1"),
        ),
        ErrorCode.INVALID_TARGET: ErrorText(
            "The request names an API for which this app cannot get a token.",
            (
                "No API has the value of resource as its identifier, compared byte by byte.",
                "The API admits only certain apps, and this is not one of them.",
                "The API was disabled or removed after access to it was granted.",
                "A token request names several APIs, or one that was not granted.",
            ),
            (
                developer(
                    "Send the identifier as the API documents it. Without resource, the token is"
                    " for the first API that was granted."
                ),
                operator("List the APIs and the apps that each of them admits.", "api list"),
            ),
            Example(
                "A token for one of the APIs that were granted",
                """\
POST /oauth/token

grant_type=refresh_token&refresh_token=…
    &resource=https%3A%2F%2Fcalendar.example""",
            ),
            *rfc(8707, "2"),
        ),
    }
)
"""The text of each of them."""
