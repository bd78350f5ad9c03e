"""/account/confirm: prove again who you are, before something that matters (security 22)."""

from dataclasses import dataclass

from valetkey.authorization.endpoints.account.visit import Visit, posted, visit
from valetkey.authorization.endpoints.visitor.sign_in.own_place import own_place
from valetkey.authorization.endpoints.visitor.site import HOME, Site, shown_person
from valetkey.authorization.pages.account.security.confirm import ConfirmPage
from valetkey.authorization.protocol.claims import Method
from valetkey.authorization.sign_in.authenticate import PasswordSignIn
from valetkey.authorization.sign_in.session import NewSession, find_still_signed_in, prove
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.refusal import Refusal
from valetkey.web.exchange import Request, Response
from valetkey.web.form import read_query

CONFIRM = "/account/confirm"

_OPAQUE = ("password",)
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
            return await self._page(request, seen)
        new = NewSession.fresh(request.headers.get("user-agent") or "", site.random)
        cookie, key = site.cookies.session(request), site.keyring.fingerprint_key
        proved: list[bool] = []

        def note(tx: Transaction) -> None:
            now = request.at
            asking = find_still_signed_in(tx, seen.signed_in.session.id, site.sessions, now)
            by = (Method.PASSWORD,)
            proved.append(
                asking is not None and prove(tx, cookie, new, asking, key, now, methods=by)
            )

        judged = await self.password.authenticate(
            user.username,
            form.get("password") or "",
            request.address,
            request.at,
            lambda tx, _: note(tx),
        )
        if isinstance(judged, Refusal):
            return await self._page(request, seen, judged)
        to = own_place(read_query(request.query).get("to")) or HOME
        if not proved[-1]:
            # The session ended meanwhile, or another tab was faster: that page asks again.
            return site.goes_to(to)
        return site.goes_to(to, *site.cookies.begin(new.cookie, seen.signed_in.session.id))

    async def _page(
        self, request: Request, seen: Visit, refusal: Refusal | None = None
    ) -> Response:
        user = seen.signed_in.user
        to = own_place(read_query(request.query).get("to"))
        known = await self.site.store.read(lambda tx: tx.users.password_set_at(user.uid))
        wait = 0 if refusal is None else refusal.retry_after
        page = ConfirmPage(
            action=f"{CONFIRM}?to={to}" if to else CONFIRM,
            csrf=seen.csrf,
            person=shown_person(seen.signed_in),
            username=user.username,
            by_password=known is not None,
            failed=refusal is not None and not wait,
            wait=wait,
        )
        headers = (*seen.headers, ("retry-after", str(wait))) if wait else seen.headers
        status = 200 if refusal is None else _TOO_MANY if wait else _UNAUTHORIZED
        return self.site.page(request, page, status, user=user, headers=headers)
