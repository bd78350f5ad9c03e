"""One example of every page, and those that are hardest to lay out."""

from collections.abc import Mapping

from tests.authorization.pages.examples.account import account_examples, ago
from tests.authorization.pages.examples.console_forms import console_form_examples
from tests.authorization.pages.examples.developer import developer_examples
from tests.authorization.pages.examples.federation import federation_examples
from tests.authorization.pages.examples.imports import imports_examples
from tests.authorization.pages.examples.insight import insight_examples
from tests.authorization.pages.examples.mailed import mailed_examples
from tests.authorization.pages.examples.people import people_examples
from tests.authorization.pages.examples.person import person_examples
from tests.authorization.pages.examples.security import security_examples
from tests.authorization.pages.examples.things import things_examples
from tests.authorization.pages.examples.trial import trial_examples
from valetkey.authorization.device.pages import (
    ConfirmDevicePage,
    DeviceDecidedPage,
    EnterCodePage,
)
from valetkey.authorization.layout.contexts import AskingApp, CurrentUser
from valetkey.authorization.layout.render import PageContext
from valetkey.authorization.site.consent import (
    ChangedPart,
    ChangeShown,
    ClaimLine,
    ConsentPage,
    ScopeLine,
)
from valetkey.authorization.site.errors.refuse import (
    ProblemPage,
    QueryStringPage,
    RemedyAudience,
    error_index,
    explanation_of,
)
from valetkey.authorization.site.home import HomePage
from valetkey.authorization.site.sign_in.sign_in import SignInPage
from valetkey.authorization.site.sign_out import SignedOutPage, SignOutPage
from valetkey.kernel.refusal import ErrorCode

ADA = CurrentUser("ada", "Ada Lovelace", "ada@example.com")
PRINTER = AskingApp(
    "Notes Printer",
    "app.example",
    verified=True,
    logo_url="/logos/AAAAAAAAAAAAAAAAAAAAAA",
    policy_url="https://app.example/privacy",
    terms_url="https://app.example/terms",
)
HOSTILE = AskingApp(
    "\u202eיתום<script>alert(1)</script>\u2069\" onload='x' {{ 7*7 }} %(name)s %s",
    'evil.example"><b>',
    logo_url="javascript:alert(1)",
    policy_url="https://evil.example/'\"><script>",
    terms_url="data:text/html,hi",
)
LONG = AskingApp(
    "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft",
    "a-very-long-subdomain-of-a-very-long-name.and-then-some-more.of-it.example.com:8443",
)
RTL = AskingApp("طابعة الملاحظات", "xn--mgbh0fb.example", verified=True)

_SENTENCES = (
    ("account:read", "see your name, username and email address"),
    ("notes:read", "read your notes"),
    ("notes:write", "write, change and delete your notes"),
    ("files:read", "see the names and the contents of all your files"),
    ("files:write", "add, change and delete files"),
    ("calendar:read", "see what is in your calendar, including what others share with you"),
    ("calendar:write", "put events into your calendar, change and delete them"),
    ("contacts:read", "see your contacts"),
    ("contacts:write", "change your contacts"),
    ("photos:read", "see your photos"),
    ("photos:write", "add and delete photos"),
    ("authorizations:read", "see which apps you have allowed"),
)


def scopes(count: int, *, required: int = 0, chosen: bool = True) -> tuple[ScopeLine, ...]:
    """So many lines, the first `required` of them without a box."""
    return tuple(
        ScopeLine(scope, sentence, required=number < required, chosen=chosen)
        for number, (scope, sentence) in enumerate(_SENTENCES[:count])
    )


def consent(app: AskingApp = PRINTER, person: CurrentUser = ADA, **more: object) -> ConsentPage:
    """A consent page as it is most of the time, changed by `more`."""
    fields = {"scopes": scopes(3, required=1), "lasts": 15_552_000, **more}
    return ConsentPage(
        "/oauth/consent?interaction=1",
        "/oauth/sign-in?interaction=1",
        app,
        person,
        **fields,  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    )


def device(app: AskingApp = PRINTER, **more: object) -> ConfirmDevicePage:
    """The page of a device's code as it is most of the time, changed by `more`."""
    fields = {"scopes": scopes(3, required=1), "lasts": 15_552_000, "changes": (), **more}
    return ConfirmDevicePage(
        action="/device/BCDF-GHJK",
        code="BCDF-GHJK",
        app=app,
        person=ADA,
        requested=ago(40),
        requested_from="2001:db8:85a3:8d3:1319:8a2e:370:7348",
        account_url="/account/apps",
        **fields,  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    )


def _explanation(code: ErrorCode, reference: str = "") -> PageContext:
    page = explanation_of(code, reference)
    assert page is not None
    return page


SIGN_IN = SignInPage("/oauth/sign-in?interaction=1", PRINTER)

EXAMPLES: Mapping[str, PageContext] = {
    **security_examples(ADA, PRINTER),
    **account_examples(PRINTER, LONG, RTL, hostile=HOSTILE),
    **developer_examples(PRINTER, LONG, RTL, hostile=HOSTILE),
    **insight_examples(LONG, HOSTILE),
    **trial_examples(HOSTILE),
    **person_examples(ADA, PRINTER, LONG, RTL, HOSTILE),
    **people_examples(),
    **console_form_examples(HOSTILE.name),
    **imports_examples(),
    **mailed_examples(PRINTER, HOSTILE),
    **things_examples(LONG, RTL, HOSTILE),
    "sign_in": SIGN_IN,
    "sign_in_alone": SignInPage("/oauth/sign-in"),
    "sign_in_failed": SignInPage("/oauth/sign-in", PRINTER, "ada", failed=True),
    "sign_in_wait": SignInPage("/oauth/sign-in", PRINTER, "ada", wait=240),
    "sign_in_long": SignInPage("/oauth/sign-in", LONG),
    "sign_in_hostile": SignInPage("/oauth/sign-in", HOSTILE, '"><script>\u202e'),
    "consent": consent(),
    "consent_one": consent(scopes=scopes(1, required=1), lasts=3_600, account_url="/account"),
    "consent_twelve": consent(scopes=scopes(12)),
    "consent_claims": consent(
        claims=(ClaimLine("email", "know your email address"), ClaimLine("name", "know 50% %s"))
    ),
    "consent_nothing": consent(scopes=scopes(3, chosen=False), nothing_chosen=True),
    "consent_changed": consent(
        changes=(
            ChangeShown(ChangedPart.NAME, "Old \u202ePrinter"),
            ChangeShown(ChangedPart.LOGO),
            ChangeShown(ChangedPart.TERMS),
            ChangeShown(ChangedPart.PLACE),
        )
    ),
    "consent_long": consent(LONG, CurrentUser("a" * 64, "B" * 120, "c" * 64 + "@example.com")),
    "consent_rtl": consent(RTL, CurrentUser("noor", "نور الهدى", "noor@example.com")),
    "consent_hostile": consent(HOSTILE, CurrentUser("<i>", "\u2069<script>", '"@example.com')),
    "device": EnterCodePage("/device", 600),
    "device_wrong": EnterCodePage("/device", 600, "BCDF-GHJ?"),
    "device_odd": EnterCodePage("/device", 600, '"><script>'),
    "device_confirm": device(),
    "device_not_compared": device(not_compared=True),
    "device_nothing": device(scopes=scopes(3, chosen=False), nothing_chosen=True),
    "device_confirm_long": device(LONG),
    "device_confirm_rtl": device(RTL),
    "device_confirm_hostile": device(HOSTILE),
    "device_allowed": DeviceDecidedPage(PRINTER.name, allowed=True),
    "device_denied": DeviceDecidedPage(HOSTILE.name, allowed=False),
    "home_signed_out": HomePage("/oauth/sign-in"),
    "sign_out": SignOutPage("/oauth/sign-out", "se_1", ADA),
    "sign_out_app": SignOutPage(
        "/oauth/sign-out",
        "se_1",
        ADA,
        PRINTER.name,
        (("returns_to", "https://app.example/bye?state=1"),),
    ),
    "sign_out_idle": SignOutPage("/oauth/sign-out", "se_1", None, LONG.name),
    "sign_out_hostile": SignOutPage("/oauth/sign-out", "se_1", ADA, HOSTILE.name),
    "signed_out": SignedOutPage(),
    **federation_examples(),
    "signed_out_back": SignedOutPage("https://app.example/bye?state=1&more=2"),
    "signed_out_here": SignedOutPage("", "address", "VK-7F3K-9QXM-2RTD"),
    "problem_developer": ProblemPage(
        ErrorCode.INVALID_REQUEST,
        "The redirect_uri is not registered for this client.",
        RemedyAudience.DEVELOPER,
        "VK-7F3K-9QXM-2RTD",
        of_app=True,
    ),
    "problem_visitor": ProblemPage(
        ErrorCode.FORBIDDEN, "This page was open for too long.", RemedyAudience.VISITOR
    ),
    "problem_operator": ProblemPage(
        ErrorCode.SERVER_ERROR,
        "The server could not finish this request.",
        RemedyAudience.OPERATOR,
        "VK-7F3K-9QXM-2RTD",
    ),
    "problem_slow_down": ProblemPage(
        ErrorCode.SLOW_DOWN, "Too many codes were entered.", RemedyAudience.VISITOR, wait=180
    ),
    "problem_not_found": ProblemPage(
        ErrorCode.NOT_FOUND, "Nothing is served at this address.", RemedyAudience.VISITOR
    ),
    "problem_wrong_host": ProblemPage(
        ErrorCode.INVALID_REQUEST,
        "this server does not answer for that Host",
        RemedyAudience.OPERATOR,
        "VK-7F3K-9QXM-2RTD",
        wrong_host="login.internal:8000",
        issuer="https://auth.example",
    ),
    "query_string": QueryStringPage("https://auth.example/oauth/token"),
    "index": error_index(),
    "explanation_of_one": _explanation(ErrorCode.INVALID_GRANT, "VK-7F3K-9QXM-2RTD"),
    **{f"explanation_{code}": _explanation(code) for code in ErrorCode},
}
"""By a name that says what is special about it."""
