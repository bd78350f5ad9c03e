"""/account/confirm: prove again who you are, before something that matters (security 22)."""

from collections.abc import Sequence
from dataclasses import dataclass

from valetkey.authorization.endpoints.account.visit import Visit, posted, visit
from valetkey.authorization.endpoints.visitor.sign_in.doorway import Doorway
from valetkey.authorization.endpoints.visitor.sign_in.own_place import own_place
from valetkey.authorization.endpoints.visitor.site import HOME, Site, shown_person
from valetkey.authorization.model.account.factors import FactorKind, Passkey
from valetkey.authorization.model.event.actor import by_user
from valetkey.authorization.pages.account.security.confirm import ConfirmPage
from valetkey.authorization.protocol.claims import Method
from valetkey.authorization.sign_in.authenticate import PasswordSignIn
from valetkey.authorization.sign_in.factors.proof import Looked, Shown, Unproved
from valetkey.authorization.sign_in.session import NewSession, find_still_signed_in, prove
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.refusal import Refusal
from valetkey.web.exchange import Request, Response
from valetkey.web.form import Form, read_query

CONFIRM = "/account/confirm"

PURPOSE = "confirm"
"""The purpose of the question to a passkey."""

_OPAQUE = ("password", "code", "recovery", "credential")
_UNAUTHORIZED = 401
_TOO_MANY = 429


async def stepped_up(site: Site, request: Request, seen: Visit, to: str = "") -> Response | None:
    """None where who is signed in proved it within the last ten minutes, as well as they can.

    Where the account has a second factor, a password is not enough. Otherwise the way to the page
    that asks; it leads back to `to`, or to the path of the request, by GET. So ask before the page
    with the form is shown, and again where the form arrives.
    """
    uid = seen.signed_in.user.uid
    guarded = await site.store.read(lambda tx: tx.users.has_second_factor(uid))
    if seen.signed_in.has_proved(request.at, second_factor=guarded):
        return None
    place = own_place(to or request.path)
    return site.goes_to(f"{CONFIRM}?to={place}" if place else CONFIRM, *seen.headers)


@dataclass(frozen=True, slots=True)
class ConfirmEndpoint:
    """The page that asks."""

    site: Site
    password: PasswordSignIn

    async def get(self, request: Request) -> Response:
        """Ask."""
        seen = await visit(self.site, request)
        if isinstance(seen, Response):
            return seen
        return await self._page(request, seen)

    async def post(self, request: Request) -> Response:
        """Judge, and go on to where it was asked for."""
        found = await posted(self.site, request, opaque=_OPAQUE)
        if isinstance(found, Response):
            return found
        seen, form = found
        user, site = seen.signed_in.user, self.site
        guarded = await site.store.read(lambda tx: tx.users.has_second_factor(user.uid))
        if guarded:
            return await self._by_factor(request, seen, form)
        new = NewSession.fresh(request.headers.get("user-agent") or "", site.random)
        by = (Method.PASSWORD.value,)
        proved: list[bool] = []
        judged = await self.password.authenticate(
            user.username,
            form.get("password") or "",
            request.address,
            request.at,
            lambda tx, who: proved.append(
                who.uid == user.uid and self._note(tx, request, seen, new, by)
            ),
            Doorway(site).familiar(request).mark,
        )
        if isinstance(judged, Refusal):
            return await self._page(request, seen, "password", judged.retry_after)
        return self._goes_on(request, seen, new, noted=proved[-1])

    async def _by_factor(self, request: Request, seen: Visit, form: Form) -> Response:
        site, now, user = self.site, request.at, seen.signed_in.user
        shown = Shown(
            form.get("code") or "", form.get("recovery") or "", form.get("credential") or ""
        )
        if shown == Shown():
            # A password, however fresh, is not enough where there is more to show.
            return await self._page(request, seen, "password" if "password" in form else "code")
        bound = site.cookies.browser_print(site.cookies.browser(request)) or ""
        looked: Looked | None = None
        if shown.credential:
            looked = await site.factors.look(
                site.store, shown.credential, PURPOSE, bound, now, user.uid
            )
        new = NewSession.fresh(request.headers.get("user-agent") or "", site.random)
        familiar = Doorway(site).familiar(request).mark(user.uid)

        def work(tx: Transaction) -> bool | Unproved:
            proof = site.factors.prove(tx, user, shown, looked, familiar, "confirm", now)
            if isinstance(proof, Unproved):
                return proof
            if proof.left is not None and site.notices is not None:
                site.notices.recovery_code_used(tx, user, proof.left, now)
            return self._note(tx, request, seen, new, proof.methods)

        met = await site.store.write(work, done_by=by_user(seen.signed_in.user.uid))
        if isinstance(met, Unproved):
            wrong = "passkey" if shown.credential else "recovery" if shown.recovery else "code"
            return await self._page(request, seen, wrong, met.wait)
        return self._goes_on(request, seen, new, noted=met)

    def _note(
        self,
        tx: Transaction,
        request: Request,
        seen: Visit,
        new: NewSession,
        methods: tuple[str, ...],
    ) -> bool:
        site, now = self.site, request.at
        asking = find_still_signed_in(tx, seen.signed_in.session.id, site.sessions, now)
        if asking is None:
            return False
        cookie, key = site.cookies.session(request), site.keyring.fingerprint_key
        return prove(tx, cookie, new, asking, key, now, methods=methods)

    def _goes_on(self, request: Request, seen: Visit, new: NewSession, *, noted: bool) -> Response:
        to = own_place(read_query(request.query).get("to")) or HOME
        if not noted:
            # The session ended meanwhile, or another tab was faster: that page asks again.
            return self.site.goes_to(to)
        return self.site.goes_to(
            to, *self.site.cookies.begin(new.cookie, seen.signed_in.session.id)
        )

    async def _page(
        self, request: Request, seen: Visit, wrong: str = "", wait: int = 0
    ) -> Response:
        site, user = self.site, seen.signed_in.user
        to = own_place(read_query(request.query).get("to"))
        browser, more = site.browser(request)
        bound, passkeys = site.cookies.browser_print(browser) or "", site.factors.passkeys

        def look(tx: Transaction) -> tuple[frozenset[FactorKind], Sequence[Passkey]]:
            return tx.credentials.kinds_of(user.uid), tx.credentials.passkeys_of(user.uid)

        kinds, keys = await site.store.read(look)
        guarded = bool(kinds & {FactorKind.PASSKEY, FactorKind.AUTHENTICATOR})
        question = ""
        if keys and passkeys.domain:
            question = passkeys.ask(PURPOSE, bound, request.at, uid=user.uid, of=keys)
        page = ConfirmPage(
            action=f"{CONFIRM}?to={to}" if to else CONFIRM,
            csrf=seen.csrf,
            person=shown_person(seen.signed_in),
            username=user.username,
            by_password=not guarded and FactorKind.PASSWORD in kinds,
            passkey=question,
            has_code=FactorKind.AUTHENTICATOR in kinds,
            has_recovery=guarded and FactorKind.RECOVERY_CODE in kinds,
            wrong=wrong,
            wait=wait,
        )
        headers = tuple(dict.fromkeys((*seen.headers, *more)))
        if wait:
            headers = (*headers, ("retry-after", str(wait)))
        status = _TOO_MANY if wait else _UNAUTHORIZED if wrong else 200
        return site.page(request, page, status, user=user, headers=headers)
