"""/account/security/authenticator: an app that shows codes is set up, or removed."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from valetkey.authorization.deeds.account.factors import (
    FreshCodes,
    add_authenticator,
    remove_authenticator,
)
from valetkey.authorization.deeds.account.notices import WayIn
from valetkey.authorization.endpoints.account.security.addresses import (
    NEW_AUTHENTICATOR,
    REMOVE_AUTHENTICATOR,
    SECURITY,
)
from valetkey.authorization.endpoints.account.security.recovery import codes_page
from valetkey.authorization.endpoints.account.security.secured import (
    proof_on_the_way,
    secured,
    secured_form,
    still_there,
)
from valetkey.authorization.endpoints.account.visit import Visit
from valetkey.authorization.endpoints.visitor.site import Site
from valetkey.authorization.model.account.factors import Authenticator
from valetkey.authorization.model.event.actor import by_user
from valetkey.authorization.pages.account.security.authenticator import NewAuthenticatorPage
from valetkey.authorization.pages.account.security.remove import Removed, RemovePage
from valetkey.authorization.protocol.claims import Method
from valetkey.authorization.sign_in.factors import totp
from valetkey.authorization.sign_in.factors.ticket import Ticket, open_ticket, seal_ticket
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import later, minutes
from valetkey.kernel.runtime import lazily
from valetkey.kernel.secret import fresh_id
from valetkey.web.exchange import Request, Response

if TYPE_CHECKING:
    import segno
else:
    segno = lazily("segno")

_SETUP = minutes(15)
_PURPOSE = "authenticator"
_BAD_REQUEST = 400
_OPAQUE = ("code", "setup")


class _Setup(Ticket, frozen=True, array_like=True, kw_only=True):
    """A secret that counts once a code of it is typed; `session` is whose page showed it."""

    key: bytes
    session: str


@dataclass(frozen=True, slots=True)
class AuthenticatorEndpoint:
    """The authenticator app of who is signed in."""

    site: Site

    async def new(self, request: Request) -> Response:
        """A secret to scan or to type; nothing is kept before a code of it comes back."""
        seen = await secured(self.site, request)
        if isinstance(seen, Response):
            return seen
        uid = seen.signed_in.user.uid
        present = await self.site.store.read(lambda tx: tx.credentials.authenticator_of(uid))
        if present is not None:
            return self.site.goes_to(SECURITY)
        setup = _Setup(
            uid=uid,
            browser="",
            expires_at=later(request.at, _SETUP),
            key=totp.fresh_key(self.site.random),
            session=seen.signed_in.session.id,
        )
        return self._page(request, seen, setup)

    async def add(self, request: Request) -> Response:
        """Keep it, if the code is right; show recovery codes with the first factor."""
        found = await secured_form(self.site, request, _OPAQUE)
        if isinstance(found, Response):
            return found
        seen, form = found
        site, now, user = self.site, request.at, seen.signed_in.user
        sealed = form.get("setup") or ""
        setup = open_ticket(sealed, _Setup, _PURPOSE, site.keyring.sealer, now)
        session = seen.signed_in.session.id
        if setup is None or setup.uid != user.uid or setup.session != session:
            # Too late, or another page: from the beginning.
            return site.goes_to(NEW_AUTHENTICATOR)
        step = totp.step_of(setup.key, form.get("code") or "", now)
        if step is None:
            return self._page(request, seen, setup, wrong=True)
        blank = Authenticator(fresh_id("cr", site.random), user.uid, "", now)
        authenticator = site.factors.sealed(blank, setup.key)
        fresh, key = FreshCodes.draw(site.random), site.keyring.fingerprint_key
        proof = proof_on_the_way(site, request)
        methods = (Method.ONE_TIME_CODE.value, Method.SEVERAL.value)

        def work(tx: Transaction) -> tuple[tuple[str, ...], bool] | None:
            there = still_there(tx, site, seen, now)
            codes = add_authenticator(tx, there, authenticator, step, fresh, key, now)
            if codes is None:
                return None
            if site.notices is not None:
                site.notices.way_in_added(tx, there, WayIn.AUTHENTICATOR, now)
            return codes, proof.note(tx, request, seen, methods)

        done = await site.store.write(work, done_by=by_user(seen.signed_in.user.uid))
        if done is None:
            return site.goes_to(SECURITY)
        codes, noted = done
        shown = proof.shown(seen) if noted else seen
        if codes:
            return codes_page(site, request, shown, codes)
        return site.goes_to(f"{SECURITY}?done=authenticator-added", *shown.headers)

    async def ask_to_remove(self, request: Request) -> Response:
        """The question before its codes count no more."""
        seen = await secured(self.site, request)
        if isinstance(seen, Response):
            return seen
        user = seen.signed_in.user

        def look(tx: Transaction) -> bool | None:
            if tx.credentials.authenticator_of(user.uid) is None:
                return None
            return not tx.credentials.passkeys_of(user.uid)

        last = await self.site.store.read(look)
        if last is None:
            return self.site.goes_to(SECURITY)
        page = RemovePage(REMOVE_AUTHENTICATOR, seen.csrf, Removed.AUTHENTICATOR, last=last)
        return self.site.page(request, page, user=user, headers=seen.headers)

    async def remove(self, request: Request) -> Response:
        """Remove it."""
        found = await secured_form(self.site, request)
        if isinstance(found, Response):
            return found
        seen, now = found[0], request.at
        await self.site.store.write(
            lambda tx: remove_authenticator(tx, still_there(tx, self.site, seen, now), now),
            done_by=by_user(seen.signed_in.user.uid),
        )
        return self.site.goes_to(f"{SECURITY}?done=authenticator-removed")

    def _page(
        self, request: Request, seen: Visit, setup: _Setup, *, wrong: bool = False
    ) -> Response:
        site, user = self.site, seen.signed_in.user
        address = totp.address(setup.key, site.brand.name, user.username)
        picture, size = drawn(address)
        page = NewAuthenticatorPage(
            action=NEW_AUTHENTICATOR,
            csrf=seen.csrf,
            setup=seal_ticket(setup, _PURPOSE, site.keyring.sealer, site.random),
            picture=picture,
            size=size,
            key=totp.written(setup.key),
            wrong=wrong,
        )
        status = _BAD_REQUEST if wrong else 200
        return site.page(request, page, status, user=user, headers=seen.headers)


def drawn(text: str) -> tuple[str, int]:
    """The QR code of this text: its dark squares as the `d` of an SVG path, and its width."""
    code = segno.make(text, error="m", micro=False)
    runs: list[str] = []
    for y, row in enumerate(code.matrix_iter(border=4)):
        start = None
        for x, dark in enumerate((*row, 0)):
            if dark and start is None:
                start = x
            elif not dark and start is not None:
                runs.append(f"M{start} {y}h{x - start}v1h-{x - start}z")
                start = None
    width, _ = code.symbol_size(border=4)
    return "".join(runs), int(width)
