"""The doorway: what happens when somebody proved who they are, whichever way they did."""

from dataclasses import dataclass, replace
from urllib.parse import quote

from valetkey.authorization.endpoints.authorize.pending import (
    Pending,
    decides_again,
    open_interaction,
    open_pending,
    sealed_in,
)
from valetkey.authorization.layout.addresses import HOME, SECOND_FACTOR, SIGN_IN
from valetkey.authorization.layout.return_path import safe_return_path
from valetkey.authorization.model.account.user import Uid, User
from valetkey.authorization.protocol.claims import acrs_of
from valetkey.authorization.sign_in.factors.device import (
    FreshDevice,
    Recognised,
    recognise,
    remember_device,
)
from valetkey.authorization.sign_in.factors.ticket import Ticket, open_ticket, seal_ticket
from valetkey.authorization.sign_in.familiar import LIFETIME as FAMILIAR
from valetkey.authorization.sign_in.familiar import Familiar
from valetkey.authorization.sign_in.session import NewSession, sign_in
from valetkey.authorization.site.site import Site
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import later, minutes
from valetkey.kernel.secret import same
from valetkey.web.exchange import Pairs, Request, Response
from valetkey.web.form import read_query

STEP = minutes(10)
"""So long the second factor may be shown after the first."""

_PURPOSE = "second factor"


@dataclass(frozen=True, slots=True)
class Way:
    """Where somebody is going: on with a request of an app, to a page of ours, or home."""

    sealed: str
    to: str
    pending: Pending | None = None

    @property
    def about(self) -> str:
        """The id of the request, "" for none: forms are bound to it."""
        return "" if self.pending is None else self.pending.interaction.id

    def leads(self, path: str) -> str:
        """A page on the same way."""
        if self.sealed:
            return f"{path}?interaction={quote(self.sealed, safe='')}"
        return f"{path}?to={self.to}" if self.to else path


async def return_target_of(site: Site, request: Request) -> Way | Response:
    """The way that the address of a request tells.

    A Response where an app must be told no instead; raises Refused like `open_pending`.
    """
    sealed = sealed_in(request)
    if not sealed:
        return Way("", safe_return_path(read_query(request.query).get("to")))
    pending = await open_pending(site, request)
    return pending if isinstance(pending, Response) else Way(sealed, "", pending)


class Step(Ticket, frozen=True, array_like=True, kw_only=True):
    """The first factor was right, in this browser; `way` and `password` bind it further."""

    way: str
    methods: tuple[str, ...]
    password: str


@dataclass(frozen=True, slots=True)
class Fresh:
    """What is drawn before the transaction that may need it."""

    session: NewSession
    device: FreshDevice


@dataclass(frozen=True, slots=True)
class Entered:
    """Somebody is signed in; `device` is remembered."""

    session_id: str
    uid: Uid
    device: Recognised | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """The account has a second factor, and this browser is not remembered."""

    user: User
    password: str


@dataclass(frozen=True, slots=True)
class SignInFlow:
    """Lets people in, or asks them for more."""

    site: Site

    def fresh(self, request: Request) -> Fresh:
        """For one request."""
        random, key = self.site.random, self.site.keyring.fingerprint_key
        agent = request.headers.get("user-agent") or ""
        return Fresh(NewSession.fresh(agent, random), FreshDevice.draw(random, key))

    def familiar(self, request: Request) -> Familiar:
        """In whose accounts somebody signed in here before."""
        cookie = self.site.cookies.familiar.read(request)
        return Familiar(cookie, self.site.keyring.fingerprint_key)

    def admit(
        self,
        tx: Transaction,
        request: Request,
        way: Way,
        fresh: Fresh,
        user: User,
        methods: tuple[str, ...],
    ) -> Entered | Wanted:
        """Whoever proved one factor: signed in, or asked for the second one."""
        if not tx.users.has_second_factor(user.uid):
            return self.enter(tx, request, fresh, user, methods)
        now, cookie = request.at, self.site.cookies.device.read(request)
        if cookie and not _insists_on_more(way, methods):
            device = recognise(tx, cookie, fresh.device, user.uid, now)
            if device is not None:
                return self.enter(tx, request, fresh, user, methods, device)
        return Wanted(user, self._password_print(tx, user))

    def enter(
        self,
        tx: Transaction,
        request: Request,
        fresh: Fresh,
        user: User,
        methods: tuple[str, ...],
        device: Recognised | None = None,
    ) -> Entered:
        """Whoever proved enough."""
        site = self.site
        session_id = sign_in(
            tx,
            site.cookies.session(request),
            fresh.session,
            user,
            site.keyring.fingerprint_key,
            site.sessions,
            request.at,
            methods=methods,
            device_id="" if device is None else device.device_id,
        )
        is_new = user.created_at != request.at and not self.familiar(request).mark(user.uid)
        if is_new and site.notices is not None:
            site.notices.new_device(tx, user, fresh.session.user_agent, request.at)
        return Entered(session_id, user.uid, device)

    def remember(self, tx: Transaction, request: Request, fresh: Fresh, uid: Uid) -> Recognised:
        """Do not ask in this browser again for a while."""
        agent, lifetime = fresh.session.user_agent, self.site.factors.settings.remember_devices
        return remember_device(tx, fresh.device, uid, agent, request.at, lifetime)

    def goes_on(
        self, request: Request, way: Way, fresh: Fresh, entered: Entered, to: str = ""
    ) -> Response:
        """The way on, with the cookies of who is signed in now; `to` instead of home."""
        site, cookies = self.site, self.site.cookies
        known = self.familiar(request).with_account(entered.uid, site.random)
        headers: Pairs = (
            *cookies.begin(fresh.session.cookie, entered.session_id),
            cookies.familiar.keep(known, FAMILIAR),
        )
        if cookies.step.read(request):
            headers = (*headers, cookies.step.drop())
        if entered.device is not None and entered.device.cookie:
            left = entered.device.expires_at - request.at
            headers = (*headers, cookies.device.keep(entered.device.cookie, left))
        if way.pending is None:
            return site.goes_to(to or way.to or HOME, *headers)
        interaction = way.pending.interaction
        signed_in = replace(interaction, signed_in=entered.session_id, decided="", allowed=())
        return site.goes_to(decides_again(site, signed_in), *headers)

    def asks_for_more(
        self, request: Request, way: Way, wanted: Wanted, methods: tuple[str, ...]
    ) -> Response:
        """The way to the page of the second factor; that the first was right goes along, sealed."""
        return self._step(request, way, _name(way), wanted, methods)

    def _step(
        self, request: Request, way: Way, name: str, wanted: Wanted, methods: tuple[str, ...]
    ) -> Response:
        site = self.site
        step = Step(
            uid=wanted.user.uid,
            browser=site.cookies.browser_print(site.cookies.browser(request)) or "",
            expires_at=later(request.at, STEP),
            way=name,
            methods=methods,
            password=wanted.password,
        )
        sealed = seal_ticket(step, _PURPOSE, site.keyring.sealer, site.random)
        return site.goes_to(way.leads(SECOND_FACTOR), site.cookies.step.keep(sealed))

    async def second_step(
        self, request: Request, user: User, methods: tuple[str, ...], sealed: str, to: str
    ) -> Response:
        """The same for who was recognised elsewhere, on their way to an app or a page of ours."""
        # Whether the request still stands is judged when the page opens.
        name = open_interaction(self.site, request, sealed).id if sealed else f"to {to}"
        print_ = await self.site.store.read(lambda tx: self._password_print(tx, user))
        return self._step(request, Way(sealed, to), name, Wanted(user, print_), methods)

    def step(self, request: Request, way: Way) -> Step | None:
        """That the first factor was right, in this browser and on this way; None if it is not."""
        site = self.site
        text = site.cookies.step.read(request)
        step = open_ticket(text, Step, _PURPOSE, site.keyring.sealer, request.at)
        browser = site.cookies.browser_print(site.cookies.browser(request))
        if step is None or browser is None or not same(step.browser, browser):
            return None
        return step if same(step.way, _name(way)) else None

    def still(self, tx: Transaction, step: Step) -> User | None:
        """Whose first factor it was, if it is still theirs and the account is open."""
        tx.users.hold_alone(Uid(step.uid))
        user = tx.users.find(Uid(step.uid))
        if user is None or user.disabled_at is not None:
            return None
        return user if same(self._password_print(tx, user), step.password) else None

    def again(self, way: Way) -> Response:
        """From the beginning."""
        return self.site.goes_to(way.leads(SIGN_IN), self.site.cookies.step.drop())

    def _password_print(self, tx: Transaction, user: User) -> str:
        stored = tx.users.password_hash(user.uid) or ""
        return self.site.keyring.fingerprint_key.of("second factor", f"{user.generation} {stored}")


def _name(way: Way) -> str:
    return way.about or f"to {way.to}"


def _insists_on_more(way: Way, methods: tuple[str, ...]) -> bool:
    """Whether the app wants a class of sign-in that the first factor alone does not give."""
    if way.pending is None:
        return False
    needed = way.pending.asked.needed_acrs
    return bool(needed) and set(needed).isdisjoint(acrs_of(methods))
