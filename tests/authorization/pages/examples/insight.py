"""What developers find out about their app: empty, one, many, and the hardest to lay out."""

from collections.abc import Mapping

from tests.authorization.pages.examples.developer import HEAD, head
from valetkey.authorization.layout.contexts import AskingApp, Chart, When, ranges
from valetkey.authorization.layout.render import PageContext
from valetkey.authorization.portal.pages.monitoring import (
    ApiTokens,
    FindingLine,
    FixPage,
    HealthPage,
    PeoplePage,
    UsageDay,
    UsagePage,
    UserLine,
)
from valetkey.authorization.portal.pages.requests import (
    AddRedirectUriPage,
    FailurePage,
    RequestLine,
    RequestsPage,
    advice_on,
)
from valetkey.authorization.portal.rules.monitoring import Finding, FindingKind, Fix, Severity
from valetkey.authorization.protocol.resource import ScopeText
from valetkey.authorization.site.app_team import AppHead
from valetkey.authorization.site.errors.refuse import TEXTS
from valetkey.authorization.site.page import Paging
from valetkey.kernel.moment import Instant, days, hours, minutes
from valetkey.kernel.refusal import ErrorCode
from valetkey.kernel.replace import replace

NOW = Instant(1_800_000_000)
_ODD = '</code><script>alert(1)</script>\u202e\' onload="x" {{ 7*7 }} %(name)s'

_REFUSALS = (
    (
        "/oauth/authorize",
        ErrorCode.INVALID_REQUEST,
        "redirect_uri is not registered for this app",
        minutes(3),
    ),
    (
        "/oauth/token",
        ErrorCode.INVALID_CLIENT,
        "the client is unknown, or client authentication failed",
        minutes(50),
    ),
    (
        "/oauth/token",
        ErrorCode.INVALID_GRANT,
        "code_verifier does not match the code_challenge of the authorization request",
        hours(5),
    ),
    (
        "/oauth/authorize",
        ErrorCode.INVALID_SCOPE,
        "scope contains a scope that this app cannot request from users",
        days(2),
    ),
)


def _line(number: int = 0) -> RequestLine:
    endpoint, code, description, ago = _REFUSALS[number]
    reference = f"VK-7F3K-9QXM-2RT{number}"
    when = When(Instant(NOW - ago), NOW)
    return RequestLine(when, endpoint, reference, code.value, description)


_SUCCESSES = tuple(
    RequestLine(
        When(Instant(NOW - minutes(7)), NOW),
        endpoint,
        method=method,
        status=status,
        milliseconds=took,
        grant_type=grant_type,
        scope=scope,
        request_id="5f2b9c3e7a1d4608",
    )
    for method, endpoint, status, took, grant_type, scope in (
        ("POST", "/oauth/token", 200, 14, "urn:ietf:params:oauth:grant-type:device_code", "openid"),
        ("GET", "/v2/notes/{id}", 200, 0, "", "notes:read"),
        ("DELETE", "/v2/notes/{id}", 204, 1_204, "", "notes:write"),
        ("GET", "/oauth/userinfo", 200, 2, "", ""),
    )
)


def _failure(
    number: int, check: str, expected: str, received: str, app: AskingApp | None = None
) -> FailurePage:
    line = _line(number)
    code = ErrorCode(line.code)
    here = HEAD if app is None else head(app)
    return FailurePage(
        here,
        line,
        code.status,
        check,
        expected,
        received,
        TEXTS[code],
        advice_on(check),
        by_anybody=number < 2,
        until=When(Instant(NOW + days(7)), NOW),
        add_redirect_uri=here.at("failures") + "/VK-7F3K-9QXM-2RTD/add" if number == 0 else "",
    )


def _usage(*, used: bool) -> UsagePage:
    today, odd = NOW // days(1), 7_919
    numbers = [
        UsageDay(
            today - 89 + day,
            tokens=(day * odd) % 613 + day * 4,
            people=(day * odd) % 97 + day,
            errors=(day * odd) % 11 if day % 3 else 0,
        )
        if used and day > 4
        else UsageDay(today - 89 + day)
        for day in range(90)
    ]
    dates = [day.date for day in numbers]
    return UsagePage(
        HEAD,
        ranges("/developer/apps/web1/usage", 90),
        numbers,
        Chart(dates, [day.tokens for day in numbers]),
        Chart(dates, [day.people for day in numbers]),
        Chart(dates, [day.errors for day in numbers]),
        active=1_204 if used else 0,
        apis=(
            ApiTokens("https://api.example.com", "", 3_500),
            ApiTokens("https://calendar.example.com/api", "<b>Calendar", 61),
        )
        if used
        else (),
        grant_types=(("refresh_token", 31_207), ("authorization_code", 9_310)) if used else (),
        errors=(("invalid_grant", 221), ("invalid_client", 78)) if used else (),
        counted=When(Instant(NOW - minutes(2)), NOW),
    )


CALENDAR = ScopeText("api_1#calendar:read", "calendar:read", "<b>Calendar", "see your calendar")
OPENID, READ, WRITE = (
    ScopeText(name, name, "", "") for name in ("openid", "notes:read", "notes:write")
)


def _person(uid: int, name: str = "", email: str = "") -> UserLine:
    last = When(Instant(NOW - hours(uid % 70)), NOW) if uid % 3 else None
    since = When(Instant(NOW - days(uid % 30)), NOW)
    return UserLine(str(uid), since, last, name, email)


def _finding(finding: Finding) -> FindingLine:
    return FindingLine(
        finding.sign.value,
        finding.weight.value,
        finding.about,
        None if finding.last is None else When(finding.last, NOW),
        "" if finding.fix is None else finding.fix.value,
        finding.page,
    )


_EARLIER = Instant(NOW - days(12))
_FINDINGS = tuple(
    map(
        _finding,
        (
            Finding(
                FindingKind.SECRET_IN_URL, Severity.ALARM, ("…h8Qz",), _EARLIER, page="secrets"
            ),
            Finding(FindingKind.IMPLICIT_UNUSED, Severity.WARNING, fix=Fix.DROP_IMPLICIT),
            Finding(FindingKind.PASSWORD_USED, Severity.WARNING, last=_EARLIER, page="start"),
            Finding(FindingKind.PASSWORD_UNUSED, Severity.WARNING, fix=Fix.DROP_PASSWORD),
            Finding(FindingKind.PKCE_UNUSED, Severity.WARNING, last=_EARLIER, page="start"),
            Finding(FindingKind.PKCE_OPTIONAL, Severity.WARNING, last=NOW, fix=Fix.REQUIRE_PKCE),
            Finding(
                FindingKind.HTTP_REDIRECT, Severity.WARNING, ("http://127.0.0.1:8000/callback",)
            ),
            Finding(
                FindingKind.SCOPES_UNUSED,
                Severity.WARNING,
                ("files:read", "files:write"),
                fix=Fix.REMOVE_SCOPES,
            ),
            Finding(FindingKind.SECRET_IDLE, Severity.WARNING, ("…8c2M",), page="secrets"),
            Finding(FindingKind.SECRET_OLD, Severity.HINT, ("…9aXw",), _EARLIER, page="secrets"),
            Finding(FindingKind.CLASSIC_NEEDLESS, Severity.HINT, fix=Fix.MODERN_PROFILE),
            Finding(FindingKind.NO_POLICY, Severity.HINT),
            Finding(FindingKind.NO_LOGO, Severity.HINT),
        ),
    )
)


def _fixing(line: FindingLine) -> FixPage:
    return FixPage(HEAD, HEAD.at("health") + f"/{line.fix}", line, people=9_104)


def _adding(app: AppHead, uri: str, *, strange: bool = False) -> AddRedirectUriPage:
    return AddRedirectUriPage(
        app,
        app.at("failures") + "/VK-7F3K-9QXM-2RTD/add",
        "VK-7F3K-9QXM-2RTD",
        uri,
        "elsewhere.example",
        ("https://app.example/callback",),
        strange,
    )


def insight_examples(long: AskingApp, hostile: AskingApp) -> Mapping[str, PageContext]:
    """Each page in the states that it has."""
    codes = tuple(sorted({code.value for _, code, _, _ in _REFUSALS}))
    every = tuple(_line(number) for number in range(len(_REFUSALS)))
    older = HEAD.at("requests") + "?before=1.VK-7F3K-9QXM-2RTD"
    return {
        "requests_none": RequestsPage(HEAD, (), (), sampled_every=0),
        "requests_failed_none": RequestsPage(HEAD, (), (), shown="failed"),
        "requests_failed": RequestsPage(HEAD, every, codes, shown="failed"),
        "requests": RequestsPage(
            HEAD, (*_SUCCESSES, *every) * 3, codes, paging=Paging(older, older, older)
        ),
        "requests_none_of_a_kind": RequestsPage(
            HEAD, (), codes, shown="failed", code="invalid_scope"
        ),
        "usage": _usage(used=True),
        "usage_none": _usage(used=False),
        "health_well": HealthPage(HEAD, (), fixed="drop-implicit"),
        "health_one": HealthPage(HEAD, _FINDINGS[:1]),
        "health": HealthPage(HEAD, _FINDINGS),
        "health_hostile": HealthPage(
            head(hostile), (replace(_FINDINGS[6], about=(_ODD,)),), fixed="x"
        ),
        **{f"fix_{line.fix}": _fixing(line) for line in _FINDINGS if line.fix},
        "people_none": PeoplePage(HEAD, (), 0, 0),
        "people_one": PeoplePage(
            HEAD, (_person(1001, "Ada Lovelace", "ada@example.com"),), 1, 1, (OPENID, READ)
        ),
        "people": PeoplePage(
            HEAD,
            (
                replace(_person(1028), missing=(OPENID,)),
                replace(_person(1027), more=(WRITE,), missing=(OPENID, CALENDAR)),
                replace(_person(1026), more=(CALENDAR,)),
                *(_person(uid) for uid in range(1025, 1003, -1)),
            ),
            9_104,
            1_204,
            (OPENID, READ, CALENDAR),
            paging=Paging(next=older),
        ),
        "people_pairwise": PeoplePage(
            HEAD,
            (replace(_person(1002), subject="m1Yd2hKo_8u0sWQ4v4pQ0mG7l2E1cX9aB3nT5rZ6yHk"),),
            1,
            0,
            pairwise=True,
        ),
        "people_hostile": PeoplePage(
            head(hostile), (_person(1001, _ODD, _ODD),), 1, 1, (CALENDAR,)
        ),
        "failure": _failure(
            0,
            "redirect_uri.unknown",
            "one of the redirect URIs of app_7f3k9qxm: https://app.example/callback",
            "'https://app.example/callback/'",
        ),
        "add_redirect_uri": _adding(HEAD, "https://app.example/callback/"),
        "add_redirect_uri_strange": _adding(HEAD, "https://elsewhere.example/cb", strange=True),
        "add_redirect_uri_hostile": _adding(head(hostile), _ODD, strange=True),
        "failure_of_a_secret": _failure(
            1, "client.secret", "one of the secrets of app_7f3k9qxm", "another secret", long
        ),
        "failure_without_advice": _failure(2, "of.its.own", "", ""),
        "failure_hostile": _failure(3, _ODD, _ODD, _ODD, hostile),
    }
