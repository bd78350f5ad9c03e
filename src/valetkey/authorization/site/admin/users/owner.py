"""/admin/owner: who comes with the link of `valetkey owner` becomes an owner."""

from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.actions.account.password_change import new_password_fault
from valetkey.authorization.actions.admin.owner import (
    LASTS,
    OwnerLink,
    become_owner,
    find_link,
    register_bearer,
)
from valetkey.authorization.actions.users import Accounts, UserRecord
from valetkey.authorization.authentication.authenticate import PasswordSignIn
from valetkey.authorization.authentication.browsers import Browsers
from valetkey.authorization.authentication.password import SHORTEST, hash_prepared, prepare
from valetkey.authorization.authentication.session import NewSession, start_session
from valetkey.authorization.layout.addresses import SIGN_IN
from valetkey.authorization.layout.contexts import SignedInPerson
from valetkey.authorization.model.account.user import User
from valetkey.authorization.model.event.actor import ANONYMOUS, by_user
from valetkey.authorization.protocol.claims import Method
from valetkey.authorization.site.admin.administrator import ADMIN, nothing_here
from valetkey.authorization.site.page import Interrupt, require_confirmed, signed_in_request
from valetkey.authorization.site.presentation import Renderer, shown_person
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.secret import Prefix, well_formed
from valetkey.kernel.words import translatable
from valetkey.web.exchange import Refuse, Request, Response, see_other
from valetkey.web.form import read_form, read_query
from valetkey.web.router import Body, Route

OWNER = "/admin/owner"
OWNER_ACCOUNT = "/admin/owner/account"
PURPOSE = "owner"
"""The purpose of the token of the form for an account."""

_FIELDS = ("username", "email", "name", "password")
_SALT = 16
_BAD_REQUEST = 400
_NOT_FOUND = 404
_FAULTS = {
    "username": translatable(
        "Choose another username: without spaces and @, and not already taken."
    ),
    "email": translatable(
        "Enter another email address: one that can receive email and is not already in use."
    ),
    "name": translatable("Enter a shorter name without line breaks."),
    "password": translatable(
        "Choose another password: longer, not your name or address, and not a common one."
    ),
}


@dataclass(frozen=True, slots=True)
class NewOwner:
    """What was typed for an account, and what is wrong with it, by field; never the password."""

    username: str = ""
    email: str = ""
    name: str = ""
    faults: tuple[tuple[str, str], ...] = ()

    def fault(self, field: str) -> str:
        """The sentence about one field, "" for none."""
        return dict(self.faults).get(field, "")


@dataclass(frozen=True, slots=True)
class OwnerPage:
    """Somebody with a good link: who they are, then what protects them, then the role.

    Without a `person` the form posts `csrf`, `username`, `email`, `name` and `password` to
    `account_action`; with one that is `protected`, `csrf` to `action`. A link that is `over` gives
    none of this.
    """

    template: ClassVar[str] = "admin/users/owner.html"

    action: str
    account_action: str
    sign_in_url: str
    csrf: str
    #: Characters in a new password, at least.
    shortest: int
    person: SignedInPerson | None = None
    protected: bool = False
    new: NewOwner = NewOwner()
    over: bool = False
    #: No further link can be made.
    has_owner: bool = False


@dataclass(frozen=True, slots=True)
class OwnerLinks:
    """The way from the link to the role."""

    browsers: Browsers
    renderer: Renderer
    accounts: Accounts
    passwords: PasswordSignIn

    def routes(self, refuse: Refuse) -> tuple[Route, ...]:
        """The page of the link, for visitors too, and the form for an account."""
        methods = {"GET": self.get, "HEAD": self.get, "POST": self.become}
        return (
            Route(OWNER, methods, refuse, Body.FORM, hides_query=True),
            Route(OWNER_ACCOUNT, {"POST": self.make}, refuse, Body.FORM),
        )

    async def get(self, request: Request) -> Response:
        """Take the link out of the address; then say what comes next."""
        given = read_query(request.hidden_query).get("link")
        if given is not None:
            # From here on the link is in no address that a history or a referrer could keep.
            if await self._find(given, request) is None:
                return await self._over(request)
            return see_other(OWNER, self._remember(given))
        link = await self._known(request)
        if isinstance(link, Response):
            return link
        return await self._page(request)

    async def make(self, request: Request) -> Response:
        """Make an account for who has none, and sign them in."""
        self.browsers.check_origin(request)
        form = read_form(request.body, opaque=_FIELDS)
        link = await self._known(request)
        if isinstance(link, Response):
            return link
        self.browsers.check_form(request, form, self.browsers.cookies.browser(request), PURPOSE)
        username, email, name = (form.get(field) or "" for field in _FIELDS[:3])
        typed = NewOwner(username, email, name)
        record = UserRecord(typed.username, typed.email, typed.name)
        wrong = [fault.field for fault in record.faults()]
        password = form.get("password") or ""
        prepared = prepare(password)
        names = (record.username, record.email)
        if new_password_fault(password, password, names) is not None:
            wrong.append("password")
        if wrong or prepared is None:
            return await self._page(request, _with_faults(typed, wrong))
        salt = self.browsers.random(_SALT)
        data = await self.passwords.offload.run(
            hash_prepared, prepared, self.passwords.passwords, salt
        )
        new = NewSession.fresh(request.headers.get("user-agent") or "", self.browsers.random)
        key, sessions, now = (
            self.browsers.keyring.fingerprint_key,
            self.browsers.sessions,
            request.at,
        )

        def work(tx: Transaction) -> bool:
            made = register_bearer(tx, link, self.accounts, record, data, now)
            if not isinstance(made, User):
                return False
            by = (Method.PASSWORD,)
            start_session(tx, new, made, key, sessions, now, methods=by)
            return True

        if not await self.browsers.store.write(work, done_by=ANONYMOUS):
            return await self._page(request, _with_faults(typed, ["username"]))
        return see_other(OWNER, *self.browsers.cookies.begin(new.cookie, new.id))

    async def become(self, request: Request) -> Response:
        """Use the link up."""
        self.browsers.check_origin(request)
        try:
            visitor = await signed_in_request(self.browsers, request, read_form(request.body))
            link = await self._known(request)
            if isinstance(link, Response):
                return link
            await require_confirmed(self.browsers, visitor, OWNER)
        except Interrupt as interrupt:
            return interrupt.response
        session, sessions, now = visitor.session, self.browsers.sessions, request.at
        await self.browsers.store.write(
            lambda tx: become_owner(tx, link, session.id, sessions, now, self.accounts.notices),
            done_by=by_user(session.uid),
        )
        return see_other(ADMIN, self._forget())

    async def _page(self, request: Request, new: NewOwner | None = None) -> Response:
        signed_in = await self.browsers.signed_in(request)
        if signed_in is None or new is not None:
            browser, headers = self.browsers.browser(request)
            csrf = self.browsers.csrf(browser, PURPOSE)
            page = OwnerPage(
                OWNER,
                OWNER_ACCOUNT,
                f"{SIGN_IN}?to={OWNER}",
                csrf,
                SHORTEST,
                new=new or NewOwner(),
            )
            status = 200 if new is None else _BAD_REQUEST
            return self.renderer.page(request, page, status, headers=headers)
        try:
            visitor = await signed_in_request(self.browsers, request)
        except Interrupt as interrupt:
            return interrupt.response
        user = visitor.user
        protected = await self.browsers.store.read(lambda tx: tx.users.has_second_factor(user.uid))
        page = OwnerPage(
            OWNER,
            OWNER_ACCOUNT,
            f"{SIGN_IN}?to={OWNER}",
            visitor.csrf,
            SHORTEST,
            shown_person(visitor.signed_in),
            protected=protected,
        )
        return self.renderer.page(request, page, user=user, headers=visitor.headers)

    async def _over(self, request: Request) -> Response:
        has_owner = await self.browsers.store.read(lambda tx: tx.people.has_owner())
        page = OwnerPage("", "", "", "", SHORTEST, over=True, has_owner=has_owner)
        return self.renderer.page(request, page, _NOT_FOUND, headers=(self._forget(),))

    async def _known(self, request: Request) -> OwnerLink | Response:
        """The link of this browser, or the page that says that it is over."""
        given = request.cookie(self._name)
        if given is None:
            raise nothing_here()
        return await self._find(given, request) or await self._over(request)

    async def _find(self, given: str, request: Request) -> OwnerLink | None:
        if not well_formed(Prefix.LINK, given):
            return None
        key, now = self.browsers.keyring.fingerprint_key, request.at
        return await self.browsers.store.read(lambda tx: find_link(tx, given, key, now))

    @property
    def _name(self) -> str:
        return "__Host-owner-link" if self.browsers.cookies.secure else "valetkey-owner-link"

    def _remember(self, link: str) -> tuple[str, str]:
        return self._set(f"{self._name}={link}; Max-Age={LASTS}")

    def _forget(self) -> tuple[str, str]:
        return self._set(f"{self._name}=; Max-Age=0")

    def _set(self, text: str) -> tuple[str, str]:
        # Lax, not Strict: people follow the link from a terminal or a letter.
        secure = "; Secure" if self.browsers.cookies.secure else ""
        return "set-cookie", f"{text}; Path=/; HttpOnly; SameSite=Lax{secure}"


def _with_faults(typed: NewOwner, wrong: list[str]) -> NewOwner:
    faults = tuple((field, _FAULTS[field]) for field in dict.fromkeys(wrong) if field in _FAULTS)
    return NewOwner(typed.username, typed.email, typed.name, faults)
