"""/admin/owner: redeem the link of `valetkey owner`, which makes its user an owner."""

from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.actions.account.passwords import new_password_fault
from valetkey.authorization.actions.admin.owner import (
    OWNER_LINK_LIFETIME,
    OwnerLink,
    become_owner,
    find_link,
    register_bearer,
)
from valetkey.authorization.actions.users import Accounts, UserRecord
from valetkey.authorization.authentication.browsers import Browsers
from valetkey.authorization.authentication.password import (
    SHORTEST,
    PasswordSignIn,
    hash_prepared,
    prepare,
)
from valetkey.authorization.authentication.session import NewSession, SignedIn, start_session
from valetkey.authorization.layout.addresses import SIGN_IN
from valetkey.authorization.layout.contexts import CurrentUser
from valetkey.authorization.model.event.event import ANONYMOUS, by_user
from valetkey.authorization.model.user import User
from valetkey.authorization.protocol.claims import Amr
from valetkey.authorization.site.admin.administrator import ADMIN, page_not_found
from valetkey.authorization.site.page import (
    Act,
    AnyPage,
    Outcome,
    Page,
    PageVisit,
    SeeOther,
    Show,
    VisitorRequest,
    require_confirmed,
    signed_in,
    signed_in_request,
    visitor_request,
)
from valetkey.authorization.site.presentation import shown_user
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.secret import Prefix, well_formed
from valetkey.kernel.text import translatable
from valetkey.web.body import read_query
from valetkey.web.exchange import Request

OWNER = "/admin/owner"
OWNER_ACCOUNT = "/admin/owner/account"
PURPOSE = "owner"
"""The purpose of the CSRF token of the account form."""

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


class NewOwner(Struct, frozen=True):
    """The submitted account and its faults by field; never the password."""

    username: str = ""
    email: str = ""
    name: str = ""
    faults: tuple[tuple[str, str], ...] = ()

    def fault(self, field: str) -> str:
        """Return the sentence about one field, "" for none."""
        return dict(self.faults).get(field, "")


class OwnerPage(Struct, frozen=True):
    """The page of an owner link: create an account or sign in, protect it, become owner.

    Without a `person` the form posts `csrf`, `username`, `email`, `name` and `password` to
    `account_action`; with one that is `protected`, `csrf` to `action`. An expired link (`over`)
    shows none of this.
    """

    template: ClassVar[str] = "admin/users/owner.html"
    scripts: ClassVar[tuple[str, ...]] = ("show.js",)

    action: str
    account_action: str
    sign_in_url: str
    #: Characters in a new password, at least.
    shortest: int
    person: CurrentUser | None = None
    protected: bool = False
    new: NewOwner = NewOwner()
    over: bool = False
    #: No further link can be made.
    has_owner: bool = False


class OwnerRequest(VisitorRequest, frozen=True, kw_only=True):
    """A request of a browser that has an owner link; None for an expired link."""

    link: OwnerLink | None
    signed_in: SignedIn | None = None

    @property
    def viewer(self) -> User | None:
        """The signed-in user, if there is one."""
        return None if self.signed_in is None else self.signed_in.user


class OwnerLinks(Struct, frozen=True):
    """Handle an owner link: create an account or sign in, then assign the role."""

    browsers: Browsers
    accounts: Accounts
    passwords: PasswordSignIn

    def pages(self) -> tuple[AnyPage, ...]:
        """Return the page of the link, for visitors too, and the form for an account."""
        become = Act(self.become, requires=self._becoming)
        make = Act(self.make, opaque=_FIELDS)
        return (
            Page(OWNER, self._looking, self.show, become, hides_query=True),
            Page(OWNER_ACCOUNT, self._making, act=make),
        )

    async def show(self, request: OwnerRequest) -> Outcome:
        """Move the link from the URL to a cookie; then show the next step."""
        if request.link is None:
            return await self._over()
        link = read_query(request.request.hidden_query).get("link")
        if link is not None:
            # The redirect removes the link from the URL, which a history or a Referer could keep.
            return SeeOther(OWNER, (self._remember(link),))
        return await self._page(request)

    async def make(self, request: OwnerRequest) -> Outcome:
        """Create an account for a visitor without one, and sign in."""
        link, form = request.link, request.form
        if link is None:
            return await self._over()
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
        browsers, now = self.browsers, request.now
        data = await self.passwords.offload.run(
            hash_prepared, prepared, self.passwords.passwords, browsers.random(_SALT)
        )
        agent = request.request.headers.get("user-agent") or ""
        new = NewSession.fresh(agent, browsers.random)
        key, sessions = browsers.keyring.fingerprint_key, browsers.sessions

        def create_owner(tx: Transaction) -> bool:
            made = register_bearer(tx, link, self.accounts, record, data, now)
            if not isinstance(made, User):
                return False
            by = (Amr.PASSWORD,)
            start_session(tx, new, made, key, sessions, now, methods=by)
            return True

        if not await browsers.store.write(create_owner, done_by=ANONYMOUS):
            return await self._page(request, _with_faults(typed, ["username"]))
        return SeeOther(OWNER, browsers.cookies.begin(new.cookie, new.id))

    async def become(self, request: OwnerRequest) -> Outcome:
        """Redeem the link and assign the role."""
        link, signed_in, now = request.link, request.signed_in, request.now
        if link is None or signed_in is None:
            return await self._over()
        session, sessions = signed_in.session, self.browsers.sessions
        await self.browsers.store.write(
            lambda tx: become_owner(tx, link, session.id, sessions, now, self.accounts.notices),
            done_by=by_user(session.uid),
        )
        return SeeOther(ADMIN, (self._forget(),))

    async def _looking(self, visit: PageVisit) -> OwnerRequest:
        """Require the link, in the URL or in a cookie. Raises Refused (not found) without."""
        request = visit.request
        link_text = read_query(request.hidden_query).get("link")
        if link_text is not None:
            return OwnerRequest(request, link=await self._find(link_text, request))
        link = await self._known(request)
        if link is None:
            return OwnerRequest(request, link=None)
        user_session = await visit.browsers.signed_in(request)
        it = (
            visitor_request(visit, None, PURPOSE)
            if user_session is None
            else signed_in_request(visit, user_session)
        )
        return OwnerRequest(
            request, it.browser, it.csrf, it.headers, link=link, signed_in=user_session
        )

    async def _making(self, visit: PageVisit) -> OwnerRequest:
        """Require the link, and that the form came from a page of this server."""
        form, link = visit.form(), await self._known(visit.request)
        if link is None:
            return OwnerRequest(visit.request, link=None)
        it = visitor_request(visit, form, PURPOSE)
        return OwnerRequest(it.request, it.browser, it.csrf, it.headers, it.form, link=link)

    async def _becoming(self, visit: PageVisit) -> OwnerRequest:
        """Require a signed-in user with the link, and recent authentication."""
        it = await signed_in(visit)
        link = await self._known(it.request)
        if link is not None:
            await require_confirmed(visit.browsers, it, OWNER)
        return OwnerRequest(
            it.request, it.browser, it.csrf, it.headers, link=link, signed_in=it.signed_in
        )

    async def _page(self, request: OwnerRequest, new: NewOwner | None = None) -> Show:
        signed_in, protected = request.signed_in, False
        if signed_in is not None:
            uid = signed_in.user.uid
            store = self.browsers.store
            protected = await store.read(lambda tx: tx.users.has_second_factor(uid))
        page = OwnerPage(
            OWNER,
            OWNER_ACCOUNT,
            f"{SIGN_IN}?to={OWNER}",
            SHORTEST,
            None if signed_in is None else shown_user(signed_in),
            protected=protected,
            new=new or NewOwner(),
        )
        return Show(page, 200 if new is None else _BAD_REQUEST)

    async def _over(self) -> Show:
        has_owner = await self.browsers.store.read(lambda tx: tx.user_directory.has_owner())
        page = OwnerPage("", "", "", SHORTEST, over=True, has_owner=has_owner)
        return Show(page, _NOT_FOUND, (self._forget(),))

    async def _known(self, request: Request) -> OwnerLink | None:
        """Return the link of this browser, None if it expired. Raises Refused without any."""
        cookie = request.cookie(self._name)
        if cookie is None:
            raise page_not_found()
        return await self._find(cookie, request)

    async def _find(self, link: str, request: Request) -> OwnerLink | None:
        if not well_formed(Prefix.LINK, link):
            return None
        key, now = self.browsers.keyring.fingerprint_key, request.at
        return await self.browsers.store.read(lambda tx: find_link(tx, link, key, now))

    @property
    def _name(self) -> str:
        return "__Host-owner-link" if self.browsers.cookies.secure else "valetkey-owner-link"

    def _remember(self, link: str) -> tuple[str, str]:
        return self._set(f"{self._name}={link}; Max-Age={OWNER_LINK_LIFETIME}")

    def _forget(self) -> tuple[str, str]:
        return self._set(f"{self._name}=; Max-Age=0")

    def _set(self, text: str) -> tuple[str, str]:
        # Lax, not Strict: users follow the link from a terminal or an email.
        secure = "; Secure" if self.browsers.cookies.secure else ""
        return "set-cookie", f"{text}; Path=/; HttpOnly; SameSite=Lax{secure}"


def _with_faults(typed: NewOwner, wrong: list[str]) -> NewOwner:
    faults = tuple((field, _FAULTS[field]) for field in dict.fromkeys(wrong) if field in _FAULTS)
    return NewOwner(typed.username, typed.email, typed.name, faults)
