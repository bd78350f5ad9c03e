"""/account/new: an account of one's own, finished by a link in an email."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.actions.account.invitations import Invitations
from valetkey.authorization.actions.account.sign_up import (
    Confirmation,
    Enter,
    SignUp,
    SignUpErrors,
    SignUpFault,
    SignUpOrigin,
    Typed,
    Waiting,
)
from valetkey.authorization.authentication.password import SHORTEST
from valetkey.authorization.email.links import SIGN_UP, SIGN_UP_CONFIRM
from valetkey.authorization.endpoints.authorize.pending import judge, open_interaction
from valetkey.authorization.layout.addresses import SIGN_IN
from valetkey.authorization.layout.contexts import AskingApp
from valetkey.authorization.layout.language_choice import language_of
from valetkey.authorization.layout.return_path import safe_return_path
from valetkey.authorization.model.account.user import User
from valetkey.authorization.protocol.claims import Method
from valetkey.authorization.site.emailed_link.emailed_link import (
    BAD_REQUEST,
    GONE,
    TOO_MANY,
    CheckEmailPage,
    DeadLinkPage,
    Matter,
    browser_print,
    link_in,
    read,
    shown,
)
from valetkey.authorization.site.mailbox.mailbox import mailbox_of
from valetkey.authorization.site.presentation import Renderer, asking_app
from valetkey.authorization.site.sign_in.flow import (
    Admitted,
    PreparedSignIn,
    ReturnTarget,
    SignInFlow,
    return_target_of,
)
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.sections.accounts import SignUp as Mode
from valetkey.kernel.refusal import Refused
from valetkey.web.exchange import Request, Response


@dataclass(frozen=True, slots=True)
class SignUpPage:
    """Ask for everything that an account needs.

    Posts `csrf`, `username`, `email`, `name` and `new`, the password.
    """

    template: ClassVar[str] = "sign_up/sign_up.html"
    scripts: ClassVar[tuple[str, ...]] = ("strength.js",)

    action: str
    csrf: str
    sign_in_url: str
    #: Characters in a password, at least.
    shortest: int
    app: AskingApp | None = None
    username: str = ""
    email: str = ""
    name: str = ""
    #: Whoever was invited has one address only: the one that the invitation went to.
    invited: bool = False
    #: By field: "empty", "wrong" or "taken"; for `new` what is wrong with a password.
    faults: Mapping[str, str] | None = None
    #: Seconds until another attempt is looked at.
    wait: int = 0


@dataclass(frozen=True, slots=True)
class SignUpClosedPage:
    """Nobody makes an account here, or by invitation only."""

    template: ClassVar[str] = "sign_up/closed.html"

    sign_in_url: str
    by_invitation: bool


@dataclass(frozen=True, slots=True)
class FinishSignUpPage:
    """Make the account: a form with one button, and a password in another browser.

    Posts `csrf`, `link` and `password`.
    """

    template: ClassVar[str] = "sign_up/finish.html"

    action: str
    csrf: str
    link: str
    username: str
    email: str
    asks_password: bool
    wrong: bool = False
    wait: int = 0


PURPOSE = "sign-up"
"""The purpose of the forms' token."""

_LONGEST = 400
_CLOSED = 403
_UNAUTHORIZED = 401


@dataclass(frozen=True, slots=True)
class SignUpEndpoint:
    """The form, and the page behind the emailed link."""

    flow: SignInFlow
    renderer: Renderer
    deed: SignUp
    invitations: Invitations

    async def get(self, request: Request) -> Response:
        """Show the form, if sign-up is open or the visitor is invited."""
        target = await return_target_of(self.flow.server, request)
        if isinstance(target, Response):
            return target
        invited = await self._invited(request)
        if not self._is_open(invited):
            return self._closed(request, target)
        return self._form(request, target, Typed("", invited, "", ""), SignUpErrors({}), invited)

    async def post(self, request: Request) -> Response:
        """Send the confirmation link, or show each fault beside its field."""
        target = await return_target_of(self.flow.server, request)
        if isinstance(target, Response):
            return target
        form = read(self.flow.server, request, PURPOSE, target.about, opaque=("new",))
        invited = await self._invited(request)
        if not self._is_open(invited):
            return self._closed(request, target)
        typed = Typed(
            (form.get("username") or "").strip(),
            invited or (form.get("email") or "").strip(),
            (form.get("name") or "").strip(),
            form.get("new") or "",
        )
        asked = SignUpOrigin(
            target.sealed,
            target.to,
            browser_print(self.flow.server, request),
            request.address,
            language_of(request, None, self.renderer.brands.current.languages).tag,
        )
        fresh, entered = self.flow.fresh(request), list[Admitted]()
        invitation = link_in(request) if invited else ""
        enter = self._enter(request, fresh, entered)
        done = await self.deed.begin(typed, asked, request.at, enter, invitation)
        if isinstance(done, SignUpErrors):
            return self._form(request, target, typed, done, invited)
        if isinstance(done, Waiting):
            box = mailbox_of(self.deed.outbox)
            again, on = target.leads(SIGN_UP), target.leads(SIGN_IN)
            page = CheckEmailPage(Matter.SIGN_UP, typed.email, again, on, box)
            return self.renderer.page(request, page)
        return self.flow.goes_on(request, target, fresh, entered[-1])

    async def look(self, request: Request) -> Response:
        """Show the page of the link; nothing changes before its button is pressed."""
        link = link_in(request)
        found = await self.deed.look(link, browser_print(self.flow.server, request), request.at)
        if found is None:
            return self._dead(request)
        return self._finish(request, link, found)

    async def finish(self, request: Request) -> Response:
        """Create the account and sign its user in."""
        form = read(self.flow.server, request, PURPOSE, opaque=("password",))
        link, browser = form.get("link") or "", browser_print(self.flow.server, request)
        found = await self.deed.look(link, browser, request.at)
        if found is None:
            return self._dead(request)
        fresh, entered = self.flow.fresh(request), list[Admitted]()
        password = form.get("password") or ""
        enter = self._enter(request, fresh, entered)
        done = await self.deed.confirm(link, browser, password, request.at, enter)
        if done is None or done is SignUpFault.TAKEN:
            return self._dead(request, taken=done is not None)
        if isinstance(done, int):
            return self._finish(request, link, found, wait=done)
        if not isinstance(done, User):
            return self._finish(request, link, found, wrong=True)
        target = await self._way_on(request, found)
        if isinstance(target, Response):
            return target
        return self.flow.goes_on(request, target, fresh, entered[-1])

    async def _way_on(self, request: Request, found: Confirmation) -> ReturnTarget | Response:
        """Return where they were going, if they began in this browser and not too long ago."""
        to = safe_return_path(found.to)
        if not found.is_here or not found.interaction:
            return ReturnTarget("", to)
        try:
            interaction = open_interaction(self.flow.server, request, found.interaction)
            pending = await judge(self.flow.server, request, interaction)
        except Refused:
            return ReturnTarget("", to)
        # An app that must be told no is told so when it asks again.
        return (
            ReturnTarget("", to)
            if isinstance(pending, Response)
            else ReturnTarget(found.interaction, "", pending)
        )

    def _enter(self, request: Request, fresh: PreparedSignIn, entered: list[Admitted]) -> Enter:

        def enter(tx: Transaction, user: User) -> None:
            entered.append(self.flow.enter(tx, request, fresh, user, (Method.PASSWORD.value,)))

        return enter

    async def _invited(self, request: Request) -> str:
        link, now = link_in(request), request.at
        if not link or self.deed.mode is Mode.OFF:
            return ""
        return await self.flow.server.store.read(lambda tx: self.invitations.find(tx, link, now))

    def _is_open(self, invited: str) -> bool:
        return self.deed.mode is Mode.OPEN or bool(invited)

    def _closed(self, request: Request, target: ReturnTarget) -> Response:
        page = SignUpClosedPage(target.leads(SIGN_IN), self.deed.mode is Mode.INVITATION)
        return self.renderer.page(request, page, _CLOSED)

    def _form(
        self,
        request: Request,
        target: ReturnTarget,
        typed: Typed,
        wrong: SignUpErrors,
        invited: str,
    ) -> Response:
        pending = target.pending
        app = (
            None if pending is None else asking_app(pending.client, pending.asked, signed_in=False)
        )
        seen = shown(self.flow.server, request, PURPOSE, target.about)
        faults = {"new" if k == "password" else k: v.value for k, v in wrong.faults.items()}
        action = target.leads(SIGN_UP)
        if invited:
            action += f"{'&' if '?' in action else '?'}link={link_in(request)}"
        page = SignUpPage(
            action=action,
            csrf=seen.csrf,
            sign_in_url=target.leads(SIGN_IN),
            shortest=SHORTEST,
            app=app,
            username=typed.username[:_LONGEST],
            email=typed.email[:_LONGEST],
            name=typed.name[:_LONGEST],
            invited=bool(invited),
            faults=faults,
            wait=wrong.wait,
        )
        status = TOO_MANY if wrong.wait else BAD_REQUEST if faults else 200
        headers = seen.waits(wrong.wait)
        returns_to = "" if pending is None else pending.asked.returns.redirect_uri
        return self.renderer.page(request, page, status, returns_to=returns_to, headers=headers)

    def _finish(
        self,
        request: Request,
        link: str,
        found: Confirmation,
        *,
        wrong: bool = False,
        wait: int = 0,
    ) -> Response:
        seen = shown(self.flow.server, request, PURPOSE)
        page = FinishSignUpPage(
            action=SIGN_UP_CONFIRM,
            csrf=seen.csrf,
            link=link,
            username=found.username,
            email=found.email,
            asks_password=not found.is_here,
            wrong=wrong,
            wait=wait,
        )
        status = TOO_MANY if wait else _UNAUTHORIZED if wrong else 200
        return self.renderer.page(request, page, status, headers=seen.waits(wait))

    def _dead(self, request: Request, *, taken: bool = False) -> Response:
        page = DeadLinkPage(Matter.SIGN_UP, SIGN_UP, taken)
        return self.renderer.page(request, page, GONE)
