"""/account/new: create an account, confirmed by a link in an email."""

from collections.abc import Mapping
from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.actions.account.sign_up import (
    Confirmation,
    ConfirmationSent,
    Enter,
    PeopleInvitations,
    SignUp,
    SignUpErrors,
    SignUpFault,
    SignUpForm,
    SignUpOrigin,
)
from valetkey.authorization.authentication.password import SHORTEST
from valetkey.authorization.email.notices import SIGN_UP, SIGN_UP_CONFIRM
from valetkey.authorization.endpoints.authorize.checks import check_interaction, open_interaction
from valetkey.authorization.endpoints.authorize.pending import sealed_for
from valetkey.authorization.layout.addresses import SIGN_IN, safe_return_path
from valetkey.authorization.layout.contexts import AskingApp
from valetkey.authorization.layout.viewer import language_of
from valetkey.authorization.model.user import User
from valetkey.authorization.protocol.claims import Amr
from valetkey.authorization.site.emailed_link import (
    BAD_REQUEST,
    GONE,
    TOO_MANY,
    CheckEmailPage,
    InvalidLinkPage,
    LinkSubject,
    Resend,
    link_in,
)
from valetkey.authorization.site.mailbox import mailbox_of
from valetkey.authorization.site.page import (
    Act,
    AnyPage,
    Outcome,
    Page,
    Show,
    VisitorRequest,
    retry_after,
    visitor,
)
from valetkey.authorization.site.sign_in.flow import (
    PreparedSignIn,
    ReturnTarget,
    SignInComplete,
    SignInFlow,
    TargetRequest,
)
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.sections.people import SignUpMode
from valetkey.kernel.refusal import Refused
from valetkey.kernel.text import translatable
from valetkey.web.exchange import Interrupt, Request


class SignUpPage(Struct, frozen=True):
    """The sign-up form.

    Posts `csrf`, `username`, `email`, `name` and `new`, the password, or `decision=deny` to cancel.
    """

    template: ClassVar[str] = "sign_up/sign_up.html"
    title: ClassVar[str] = translatable("Create an account")
    scripts: ClassVar[tuple[str, ...]] = ("show.js", "strength.js")

    action: str
    sign_in_url: str
    #: Characters in a password, at least.
    shortest: int
    app: AskingApp | None = None
    username: str = ""
    email: str = ""
    name: str = ""
    #: The email of an invited user, which cannot be changed here.
    invited: bool = False
    #: By field: "empty", "wrong" or "taken"; for `new` what is wrong with a password.
    faults: Mapping[str, str] | None = None
    #: Seconds until another attempt is looked at.
    wait: int = 0


class SignUpClosedPage(Struct, frozen=True):
    """Accounts cannot be created, or only by invitation."""

    template: ClassVar[str] = "sign_up/closed.html"
    title: ClassVar[str] = translatable("Sign-up is disabled")

    sign_in_url: str
    by_invitation: bool


class FinishSignUpPage(Struct, frozen=True):
    """Create the account: a form with one button, and a password in another browser.

    Posts `csrf`, `link` and `password`.
    """

    template: ClassVar[str] = "sign_up/finish.html"
    title: ClassVar[str] = translatable("Finish creating your account")
    scripts: ClassVar[tuple[str, ...]] = ("show.js",)

    action: str
    link: str
    username: str
    email: str
    asks_password: bool
    wrong: bool = False
    wait: int = 0


PURPOSE = "sign-up"
"""The purpose of the forms' CSRF tokens."""

_LONGEST = 400
_CLOSED = 403
_UNAUTHORIZED = 401


class CreateAccount(Struct, frozen=True):
    """Show the sign-up form, and the page of the emailed link."""

    flow: SignInFlow
    sign_up: SignUp
    invitations: PeopleInvitations

    def pages(self) -> tuple[AnyPage, ...]:
        """Return the pages of this feature."""
        finish = Act(self.finish, opaque=("password",))
        return (
            Page(SIGN_UP, self.flow.visitor(PURPOSE), self.show, Act(self.begin, opaque=("new",))),
            Page(SIGN_UP_CONFIRM, visitor(PURPOSE), self.show_link, finish),
        )

    async def show(self, request: TargetRequest) -> Outcome:
        """Show the sign-up form, if sign-up is open or the visitor is invited."""
        invited = await self._invited(request)
        if not self._is_open(invited):
            return self._closed(request)
        pending = request.target.pending
        hint = "" if pending is None else pending.authorization.login_hint
        username, email = ("", hint) if "@" in hint else (hint, "")
        typed = SignUpForm(username, invited or email, "", "")
        return _form(request, typed, SignUpErrors({}), invited)

    async def begin(self, request: TargetRequest) -> Outcome:
        """Send the confirmation link, or show each fault beside its field."""
        server, target = self.flow.server, request.target
        form, came = request.form, request.request
        if (back := self.flow.back_to_app(request)) is not None:
            return back
        invited = await self._invited(request)
        if not self._is_open(invited):
            return self._closed(request)
        if again := form.get("again"):
            return await self._send_again(request, again)
        typed = SignUpForm(
            (form.get("username") or "").strip(),
            invited or (form.get("email") or "").strip(),
            (form.get("name") or "").strip(),
            form.get("new") or "",
        )
        origin = SignUpOrigin(
            target.sealed,
            target.to,
            self._browser(request),
            came.address,
            language_of(came, None, server.brand.languages).tag,
        )
        fresh, entered = self.flow.fresh(came), list[SignInComplete]()
        invitation = link_in(request) if invited else ""
        enter = self._enter(came, fresh, entered)
        done = await self.sign_up.begin(typed, origin, request.now, enter, invitation)
        if isinstance(done, SignUpErrors):
            return _form(request, typed, done, invited)
        if isinstance(done, ConfirmationSent):
            return self._sent(request, done)
        return self.flow.continue_to(came, target, fresh, entered[-1])

    async def show_link(self, request: VisitorRequest) -> Outcome:
        """Show the page of the link; nothing changes before its button is pressed."""
        link = link_in(request)
        confirmation = await self.sign_up.find_link(link, self._browser(request), request.now)
        return _dead() if confirmation is None else _finish(request, link, confirmation)

    async def finish(self, request: VisitorRequest) -> Outcome:
        """Create the account and sign its user in."""
        flow, came, now = self.flow, request.request, request.now
        link, browser = request.form.get("link") or "", self._browser(request)
        confirmation = await self.sign_up.find_link(link, browser, now)
        if confirmation is None:
            return _dead()
        fresh, entered = flow.fresh(came), list[SignInComplete]()
        password = request.form.get("password") or ""
        enter = self._enter(came, fresh, entered)
        done = await self.sign_up.confirm(link, browser, password, now, enter)
        if done is None or done is SignUpFault.TAKEN:
            return _dead(taken=done is not None)
        if isinstance(done, int):
            return _finish(request, link, confirmation, wait=done)
        if not isinstance(done, User):
            return _finish(request, link, confirmation, wrong=True)
        return flow.continue_to(came, await self._way_on(came, confirmation), fresh, entered[-1])

    async def _send_again(self, request: TargetRequest, again: str) -> Outcome:
        """Send the email of a sign-up again, or say after how long that is possible."""
        came = request.request
        done = await self.sign_up.send_again(
            again, self._browser(request), came.address, request.now
        )
        if done is None:
            return _dead()
        if isinstance(done, SignUpErrors):
            return _form(request, SignUpForm("", "", "", ""), done, "")
        return self._sent(request, done, sent_again=True)

    def _sent(
        self, request: TargetRequest, done: ConfirmationSent, *, sent_again: bool = False
    ) -> Show:
        target = request.target
        form, on = target.address_of(SIGN_UP), target.address_of(SIGN_IN)
        box = mailbox_of(self.sign_up.outbox)
        resend = Resend(form, "again", done.again, done=sent_again)
        return Show(CheckEmailPage(LinkSubject.SIGN_UP, done.email, form, resend, on, box))

    async def _way_on(self, request: Request, confirmation: Confirmation) -> ReturnTarget:
        """Return the target of the sign-up, if it began recently in this browser."""
        server, to = self.flow.server, safe_return_path(confirmation.to)
        if not confirmation.is_here or not confirmation.interaction:
            return ReturnTarget("", to)
        try:
            interaction = await open_interaction(server, request, confirmation.interaction)
            pending = await check_interaction(server, request, interaction)
        except (Refused, Interrupt):
            # If the app's request is invalid now, the app gets the error when it is repeated.
            return ReturnTarget("", to)
        return ReturnTarget(sealed_for(server, pending, confirmation.interaction), "", pending)

    def _enter(
        self, request: Request, fresh: PreparedSignIn, entered: list[SignInComplete]
    ) -> Enter:
        def enter(tx: Transaction, user: User) -> None:
            entered.append(self.flow.enter(tx, request, fresh, user, (Amr.PASSWORD.value,)))

        return enter

    def _browser(self, request: VisitorRequest) -> str:
        """Return the fingerprint of the browser; "" if it sent no cookie."""
        cookies = self.flow.server.cookies
        return cookies.browser_fingerprint(cookies.browser(request.request)) or ""

    async def _invited(self, request: VisitorRequest) -> str:
        link, now = link_in(request), request.now
        if not link or self.sign_up.mode is SignUpMode.OFF:
            return ""
        store = self.flow.server.store
        return await store.read(lambda tx: self.invitations.find(tx, link, now))

    def _is_open(self, invited: str) -> bool:
        return self.sign_up.mode is SignUpMode.OPEN or bool(invited)

    def _closed(self, request: TargetRequest) -> Show:
        by_invitation = self.sign_up.mode is SignUpMode.INVITATION
        return Show(SignUpClosedPage(request.target.address_of(SIGN_IN), by_invitation), _CLOSED)


def _form(request: TargetRequest, typed: SignUpForm, wrong: SignUpErrors, invited: str) -> Show:
    faults = {"new" if k == "password" else k: v.value for k, v in wrong.faults.items()}
    action = request.target.address_of(SIGN_UP)
    if invited:
        action += f"{'&' if '?' in action else '?'}link={link_in(request)}"
    page = SignUpPage(
        action=action,
        sign_in_url=request.target.address_of(SIGN_IN),
        shortest=SHORTEST,
        app=request.app,
        username=typed.username[:_LONGEST],
        email=typed.email[:_LONGEST],
        name=typed.name[:_LONGEST],
        invited=bool(invited),
        faults=faults,
        wait=wrong.wait,
    )
    status = TOO_MANY if wrong.wait else BAD_REQUEST if faults else 200
    return Show(page, status, retry_after(wrong.wait), request.returns_to)


def _finish(
    request: VisitorRequest,
    link: str,
    confirmation: Confirmation,
    *,
    wrong: bool = False,
    wait: int = 0,
) -> Show:
    page = FinishSignUpPage(
        action=SIGN_UP_CONFIRM,
        link=link,
        username=confirmation.username,
        email=confirmation.email,
        asks_password=not confirmation.is_here,
        wrong=wrong,
        wait=wait,
    )
    status = TOO_MANY if wait else _UNAUTHORIZED if wrong else 200
    return Show(page, status, retry_after(wait))


def _dead(*, taken: bool = False) -> Show:
    return Show(InvalidLinkPage(LinkSubject.SIGN_UP, SIGN_UP, taken), GONE)
