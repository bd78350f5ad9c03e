"""Requests of an app: refused ones with advice, and samples of successful ones."""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.actions.clients import Faults, Registrar
from valetkey.authorization.actions.inspection.refusals import plain_reference
from valetkey.authorization.actions.teams import find_own
from valetkey.authorization.layout.addresses import DEVELOPER
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.model.client import Client
from valetkey.authorization.portal.rules.monitoring import (
    NEWEST,
    AppRequests,
    Cursor,
    add_redirect_uri,
    app_of_failure,
    codes_of,
    find_failure,
    may_be_another,
    missing_redirect_uri,
    requests_of,
)
from valetkey.authorization.site.app_team import APP, MONITORING, AppHead, AppRequest, member_of_app
from valetkey.authorization.site.errors.refuse import TEXTS, ErrorText
from valetkey.authorization.site.page import (
    ONE_PAGE,
    Act,
    AnyPage,
    Outcome,
    Page,
    Paging,
    SeeOther,
    Show,
    SignedInRequest,
    not_found,
    pages_beside,
    signed_in,
)
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.authorization.storage.usage import StoredSample
from valetkey.database.decisions import Decision
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.text import translatable
from valetkey.kernel.url import origin


class Advice(Struct, frozen=True):
    """The explanation of a check and how to fix it.

    `page` is the app's page to fix it on, or "".
    """

    looked_at: str
    fix: str
    page: str = ""


_AGAIN = "Start again with a new authorization request."

ADVICE: Mapping[str, Advice] = MappingProxyType(
    {
        "redirect_uri.unknown": Advice(
            "Whether redirect_uri exactly matches a registered redirect URI, including scheme, "
            "host, port, path and trailing slash.",
            "Register the redirect URI that the app sends, or change the app to send a registered"
            " one.",
            "settings",
        ),
        "redirect_uri.missing": Advice(
            "Whether the request has a redirect_uri. Only an app with exactly one redirect URI "
            "can omit it.",
            "Send redirect_uri with every authorization request.",
            "settings",
        ),
        "authorize.client": Advice(
            "Whether client_id belongs to a registered, enabled app.",
            "Compare the client_id with the one on the overview of this app.",
        ),
        "response_type.missing": Advice(
            "Whether the request has a response_type.",
            "Send response_type=code.",
            "quickstart",
        ),
        "response_type.unknown": Advice(
            "Whether the response_type exists.", "Send response_type=code.", "quickstart"
        ),
        "response_type.forbidden": Advice(
            "Whether this app is registered for the requested response type.",
            "Send response_type=code. Tokens through the browser require the implicit grant, "
            "which only an administrator can enable.",
            "settings",
        ),
        "response_mode.unknown": Advice(
            "Whether response_mode is supported.",
            "Leave response_mode out; the default is right for nearly every app.",
        ),
        "scope.wider": Advice(
            "Whether everything in scope is registered for this app.",
            "Remove the scopes listed as received, or register them for the app.",
            "settings",
        ),
        "scope.openid": Advice(
            "Whether a request for an ID token has the scope openid.",
            "Add openid to scope.",
            "settings",
        ),
        "pkce.missing": Advice(
            "Whether the request has a code_challenge: this app requires one, or a nonce with the"
            " scope openid if it is confidential.",
            "Generate a code_verifier for each request and send its S256 challenge. Current OAuth"
            " libraries have an option for PKCE.",
            "quickstart",
        ),
        "pkce.alone": Advice(
            "Whether code_challenge_method comes with a code_challenge.",
            "Send both or neither.",
            "quickstart",
        ),
        "pkce.method": Advice(
            "Whether the code challenge was made by S256.",
            "Send code_challenge_method=S256; plain is not accepted.",
            "quickstart",
        ),
        "pkce.malformed": Advice(
            "Whether code_challenge is the base64url of a SHA-256 digest, without padding.",
            "Hash the bytes of the code_verifier, not its hexadecimal form, and remove the "
            "trailing equals sign.",
            "quickstart",
        ),
        "nonce.missing": Advice(
            "Whether a request for an ID token through the browser has a nonce.",
            "Send a new nonce with every request.",
        ),
        "nonce.used": Advice(
            "Whether this nonce was used before: each can be used once in 24 hours.",
            "Generate a new nonce for every request instead of a fixed one.",
        ),
        "state.long": Advice(
            "Whether the state can be returned unchanged.",
            "Store long values in your app's session, and send only a key in state.",
        ),
        "resource.unknown": Advice(
            "Whether resource names an API that this app can get tokens for.",
            "Send one of the expected identifiers, exactly as shown. An API can be limited to"
            " certain apps.",
        ),
        "resource.several": Advice(
            "How many APIs the request names.",
            "An access token is for one API: send resource once to the token endpoint.",
        ),
        "resource.ended": Advice(
            "Whether an API for which access was granted still allows this app.",
            "The API was disabled or removed. Ask its operator. " + _AGAIN,
        ),
        "interaction.denied": Advice(
            "The decision of the user.",
            "The user denied access. Explain what your app needs and let them try again.",
        ),
        "interaction.login_required": Advice(
            "Whether the user is signed in: the request had prompt=none.",
            "This is the expected response to a silent attempt. Send the user here without "
            "prompt=none.",
        ),
        "interaction.consent_required": Advice(
            "Whether the user has allowed this before: the request had prompt=none.",
            "This is the expected response to a silent attempt. Send the user here without "
            "prompt=none.",
        ),
        "client.secret": Advice(
            "Whether client_secret is an active secret of this app.",
            "Compare the last characters with the secrets listed here. A rotated secret expires"
            " at the end of its overlap period.",
            "secrets",
        ),
        "client.secret.place": Advice(
            "Whether the secret was sent with the registered authentication method.",
            "Use the expected method: client_secret_basic is the Authorization header, "
            "client_secret_post the body.",
            "settings",
        ),
        "client.two_proofs": Advice(
            "Whether the app authenticated with exactly one method.",
            "Send client ID and secret once: in the Authorization header or in the body.",
            "quickstart",
        ),
        "client.disabled": Advice(
            "Whether this app is enabled.",
            "An administrator of this service disabled the app. Contact them.",
        ),
        "client.too_many_failures": Advice(
            "How many failed attempts came from this IP address.",
            "Wait, then send the correct secret. Correct credentials are never delayed.",
            "secrets",
        ),
        "client.public": Advice(
            "Whether the app is confidential; public apps cannot send this request.",
            "Send the request from your server, with an app that has a secret.",
        ),
        "grant_type.not_registered": Advice(
            "Whether this app is registered for the grant type.",
            "Use one of the expected grant types, or register the app for this one.",
            "settings",
        ),
        "request.query_profile": Advice(
            "Whether the parameters were sent in the body.",
            "Send them in the body of the POST, never in the URL: URLs are logged. Rotate secrets"
            " that were sent in a URL.",
            "secrets",
        ),
        "code.unknown": Advice(
            "Whether the code was issued to this app.",
            "Use the value of code from the redirect, URL-decoded once. Codes of another app or "
            "environment are not valid.",
            "try",
        ),
        "code.expired": Advice(
            "Whether the code is still valid: it expires after a minute.",
            "Exchange the code as soon as it arrives. " + _AGAIN,
        ),
        "code.replayed": Advice(
            "Whether the code is used for the first time. Its tokens were revoked, because a "
            "reused code may have been stolen.",
            "Exchange each code once. Common causes are retries, two workers, and a page that is "
            "loaded twice.",
        ),
        "code.redirect_uri": Advice(
            "Whether the token request names the same redirect_uri as the authorization request.",
            "Send the same string in both requests.",
            "settings",
        ),
        "code.verifier": Advice(
            "Whether the code_verifier fits the code_challenge of the authorization request.",
            "Store the code_verifier in the user's session and send it unchanged. Use a "
            "separate one for each tab.",
        ),
        "code.consent": Advice(
            "Whether the user still allows what the code was issued for.",
            "The user revoked access in the meantime. " + _AGAIN,
        ),
        "refresh_token.unknown": Advice(
            "Whether the refresh token was issued to this app and is still valid.",
            "Store the newest refresh token of every response. " + _AGAIN,
        ),
        "refresh_token.idle": Advice(
            "Whether the refresh token was used recently.",
            "The token was unused for too long and expired. " + _AGAIN,
        ),
        "refresh_token.reused": Advice(
            "Whether the refresh token is the newest. An older one was reused, so the whole "
            "authorization was revoked: the token may have been stolen.",
            "Store the new refresh token before you use the new access token, and let one worker"
            " refresh at a time. " + _AGAIN,
        ),
        "userinfo.token": Advice(
            "Whether the access token is valid.",
            "Refresh it, or send the user here again.",
        ),
        "userinfo.scope": Advice(
            "Whether the access token has the scope openid.",
            "Ask for openid in the authorization request.",
            "settings",
        ),
    }
)
"""The advice by the name of the check that failed."""

FAMILIES: Mapping[str, Advice] = MappingProxyType(
    {
        "client": Advice(
            "Whether the request comes from this app.",
            "Send the credentials in the way that this app is registered for. A signed assertion"
            " must be fresh, for this server, and signed by a key that is registered.",
            "settings",
        ),
        "live": Advice(
            "Whether everything behind the token still lives: the person, their session, what they"
            " allowed, and the app.",
            "The user revoked access, or it expired. " + _AGAIN,
        ),
        "refresh_token": Advice(
            "Whether the refresh token may be used in this way.",
            "Ask for no more than was allowed, and use the newest refresh token.",
        ),
        "interaction": Advice(
            "Whether the user could be asked for a decision.",
            "Nothing is wrong with your app. " + _AGAIN,
        ),
        "registration": Advice(
            "Whether the registration may be read or changed like this.",
            "Compare the registration token and the fields with the documentation.",
        ),
    }
)
"""The advice by the part of the name before the dot, for other checks."""


def advice_on(check: str) -> Advice | None:
    """Return the advice for this check; None if the error code's explanation is sufficient."""
    return ADVICE.get(check) or FAMILIES.get(check.partition(".")[0])


REQUESTS = f"{APP}/requests"
SHOWN = 25
"""Maximum number of requests on a page."""

_PLACE = re.compile(r"([1-9][0-9]{0,11})\.(VK-[0-9A-Z-]{14}|[0-9]{16})", re.ASCII)
_CODES = frozenset(ErrorCode)


class Shown(StrEnum):
    """A filter of the requests that the page lists."""

    ALL = ""
    FAILED = "failed"
    SUCCESSFUL = "successful"


class RequestLine(Struct, frozen=True):
    """One request: refused if it has a `reference`, else successful.

    `description` is the fixed text of its error. The status of a refused one is not recorded.
    """

    when: When
    endpoint: str
    reference: str = ""
    code: str = ""
    description: str = ""
    method: str = ""
    status: int = 0
    milliseconds: int = 0
    grant_type: str = ""
    scope: str = ""
    request_id: str = ""


class RequestsPage(Struct, frozen=True):
    """The context of requests.html, newest first. `code` filters by an error code, "" for all."""

    template: ClassVar[str] = "portal/pages/requests.html"
    scripts: ClassVar[tuple[str, ...]] = ("times.js",)

    app: AppHead
    lines: tuple[RequestLine, ...]
    #: The error codes that can be chosen.
    codes: Sequence[str]
    #: `failed`, `successful`, or "" for all.
    shown: str = ""
    code: str = ""
    #: The seconds for which one successful request of a kind is recorded, 0 for none.
    sampled_every: int = 60
    paging: Paging = ONE_PAGE


class Requests(Struct, frozen=True):
    """List the refused and successful requests of an app."""

    store: Store
    sampled_every: int

    def pages(self) -> tuple[AnyPage, ...]:
        """Return the page of this feature."""
        title = translatable("Requests")
        return (
            Page(
                REQUESTS,
                member_of_app,
                self.show,
                title=title,
                nav=MONITORING,
                docs="how-to/apps/find-out-why-a-request-failed.html",
            ),
        )

    async def show(self, request: AppRequest) -> Outcome:
        """Show a page of the requests; `before` is the last entry of the previous page.

        `show` filters by outcome, `code` by error code.
        """
        client_id, now, head = request.client.id, request.now, request.head
        code, before = request.query.get("code") or "", request.query.get("before")
        named = Shown.FAILED if code else request.query.get("show") or ""
        if named not in tuple(Shown) or (code and code not in _CODES):
            raise unknown_place()
        shown = Shown(named)
        after = NEWEST if before is None else _parse(before)
        criteria = AppRequests(
            refused=shown is not Shown.SUCCESSFUL, successful=shown is not Shown.FAILED, code=code
        )
        records, codes = await self.store.scan(
            lambda tx: (
                requests_of(tx, client_id, after, SHOWN + 1, criteria),
                codes_of(tx, client_id, now),
            )
        )
        last = Cursor.from_record(records[SHOWN - 1]) if len(records) > SHOWN else None
        return Show(
            RequestsPage(
                head,
                tuple(_line(record, now) for record in records[:SHOWN]),
                codes=codes,
                shown=shown.value,
                code=code,
                sampled_every=self.sampled_every,
                paging=pages_beside(
                    head.at("requests"),
                    {"code": code} if code else {"show": shown.value},
                    request.query,
                    f"{last.at}.{last.reference}" if last else "",
                    name="before",
                ),
            )
        )


def refused_line(decision: Decision, now: Instant) -> RequestLine:
    """Return a refused request as pages show it."""
    return RequestLine(
        When(decision.at, now),
        decision.endpoint,
        decision.reference,
        decision.code,
        decision.description,
    )


def _line(record: Decision | StoredSample, now: Instant) -> RequestLine:
    if isinstance(record, Decision):
        return refused_line(record, now)
    return RequestLine(
        When(record.at, now),
        record.endpoint,
        method=record.method,
        status=record.status,
        milliseconds=record.milliseconds,
        grant_type=record.grant_type,
        scope=record.scope,
        request_id=record.request_id,
    )


def _parse(before: str) -> Cursor:
    match = _PLACE.fullmatch(before)
    if match is None:
        raise unknown_place()
    return Cursor(Instant(int(match[1])), match[2])


def unknown_place() -> Refused:
    """Return the refusal of a list position that no page links to."""
    return Refused.because(
        ErrorCode.INVALID_REQUEST,
        "this address is invalid; open the page of your app again",
        "developer.place",
    )


FAILURES = f"{APP}/failures"
FIXING_PAGES = frozenset({"settings", "secrets", "quickstart", "try"})
"""The sections of an app that an advice may link to."""


class FailurePage(Struct, frozen=True):
    """The context of failure.html. `expected` and `received` may contain text from anyone."""

    template: ClassVar[str] = "portal/pages/failure.html"
    scripts: ClassVar[tuple[str, ...]] = ("copy.js", "times.js")

    app: AppHead
    line: RequestLine
    status: int
    check: str
    expected: str
    received: str
    text: ErrorText
    advice: Advice | None
    #: The request was not authenticated: anyone could have sent it in the name of the app.
    by_anybody: bool
    #: When the record is deleted.
    until: When
    #: The page of the app on which to fix it, "" for none.
    fixed_at: str = ""
    #: The page that adds the missing redirect URI, "" for other failures.
    add_redirect_uri: str = ""


class AddRedirectUriPage(Struct, frozen=True):
    """The context of add_redirect_uri.html. Its form posts `csrf`.

    With `strange`, the app has no redirect URI on that server.
    """

    template: ClassVar[str] = "portal/pages/add_redirect_uri.html"

    app: AppHead
    action: str
    reference: str
    redirect_uri: str
    server: str
    registered: tuple[str, ...]
    strange: bool


class Failures(Struct, frozen=True):
    """Explain a failed request of an app; register a redirect URI named by it."""

    store: Store
    registrar: Registrar

    def pages(self) -> tuple[AnyPage, ...]:
        """Return the pages of this feature; two find the app by a reference alone."""
        title, request_title = translatable("Failed requests"), translatable("Failed request")
        add = translatable("Add this redirect URI?")
        path, anywhere = f"{FAILURES}/{{reference}}", f"{DEVELOPER}/failures"
        return (
            Page(path, member_of_app, self.show_one, title=request_title),
            Page(f"{path}/add", member_of_app, self.ask_to_add, Act(self.add), title=add),
            Page(anywhere, signed_in, self.find, title=title),
            Page(f"{anywhere}/{{reference}}", signed_in, self.find, title=title),
        )

    async def show_one(self, request: AppRequest) -> Outcome:
        """Show one failed request. Refused (not found) for one of another app."""
        decision = await self._find(request)
        if decision is None:
            raise not_found("refusal")
        code, head = ErrorCode(decision.code), request.head
        advice = advice_on(decision.check)
        missing = missing_redirect_uri(decision)
        path = f"{head.at('failures')}/{decision.reference}"
        return Show(
            FailurePage(
                head,
                refused_line(decision, request.now),
                status=code.status,
                check=decision.check,
                expected=decision.expected,
                received=decision.received,
                text=TEXTS[code],
                advice=advice,
                by_anybody=may_be_another(decision),
                until=When(decision.expires_at, request.now),
                add_redirect_uri=f"{path}/add" if missing else "",
                fixed_at=advice.page if advice is not None and advice.page in FIXING_PAGES else "",
            )
        )

    async def find(self, request: SignedInRequest) -> Outcome:
        """Redirect to a failed request, for the team of its app. Refused (not found) for others."""
        typed = request.arguments.get("reference") or request.query.get("reference")
        reference, uid = plain_reference(typed or ""), request.user.uid
        client_id = None
        if reference:
            client_id = await self.store.read(lambda tx: app_of_failure(tx, reference, uid))
        if client_id is None:
            raise not_found("refusal")
        return SeeOther(f"{AppHead(client_id, '').at('failures')}/{reference}")

    async def ask_to_add(self, request: AppRequest) -> Outcome:
        """Ask before the redirect URI is added. Refused (not found) if none is missing."""
        reference, uri = await self._missing(request)
        head, uri_origin, registered = request.head, origin(uri), request.client.redirect_uris
        return Show(
            AddRedirectUriPage(
                head,
                f"{head.at('failures')}/{reference}/add",
                reference,
                uri,
                uri_origin.partition("://")[2] or uri_origin,
                registered,
                strange=uri_origin not in {origin(redirect_uri) for redirect_uri in registered},
            )
        )

    async def add(self, request: AppRequest) -> Outcome:
        """Add the redirect URI. Refused (conflict) for one that no app may register."""
        _, uri = await self._missing(request)
        client_id, uid, now = request.client.id, request.user.uid, request.now

        def add(tx: Transaction) -> Client | Faults:
            client = tx.clients.find_to_change(client_id)
            if client is None or find_own(tx, client.id, uid) is None:
                raise not_found("app")
            return add_redirect_uri(tx, self.registrar, client, uri, now)

        done = await self.store.write(add, done_by=request.actor)
        if isinstance(done, tuple):
            raise Refused.because(
                ErrorCode.CONFLICT,
                "this address cannot be a redirect URI; the settings of the app say why",
                "developer.redirect_uri",
            )
        return SeeOther(f"{request.head.at('settings')}?saved=1")

    async def _find(self, request: AppRequest) -> Decision | None:
        reference, client_id = plain_reference(request.arguments["reference"]), request.client.id
        if not reference:
            return None
        return await self.store.read(lambda tx: find_failure(tx, client_id, reference))

    async def _missing(self, request: AppRequest) -> tuple[str, str]:
        decision = await self._find(request)
        uri = "" if decision is None else missing_redirect_uri(decision)
        if decision is None or not uri:
            raise not_found("refusal")
        return decision.reference, uri
