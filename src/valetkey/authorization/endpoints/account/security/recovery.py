"""/account/security/recovery-codes: how many are left, a new set, and the set as a file."""

from dataclasses import dataclass

from valetkey.authorization.deeds.account.factors import FreshCodes, issue_recovery_codes
from valetkey.authorization.endpoints.account.security.addresses import (
    DOWNLOAD,
    RECOVERY_CODES,
    SECURITY,
)
from valetkey.authorization.endpoints.account.security.secured import (
    secured,
    secured_form,
    still_there,
)
from valetkey.authorization.endpoints.account.visit import Visit, posted
from valetkey.authorization.endpoints.visitor.site import Site
from valetkey.authorization.model.event.actor import by_user
from valetkey.authorization.pages.account.security.recovery.codes import (
    RecoveryCodesPage,
    RecoveryPage,
)
from valetkey.authorization.pages.visitor.when import When
from valetkey.authorization.sign_in.factors.ticket import Ticket, open_ticket, seal_ticket
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import later, minutes
from valetkey.web.exchange import Request, Response

_SHOWN = minutes(15)
_PURPOSE = "recovery codes"


class _Shown(Ticket, frozen=True, array_like=True, kw_only=True):
    """Codes on a page, for the file of the same."""

    codes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RecoveryEndpoint:
    """The recovery codes of who is signed in; nobody can read them twice."""

    site: Site

    async def get(self, request: Request) -> Response:
        """How many are left."""
        seen = await secured(self.site, request)
        if isinstance(seen, Response):
            return seen
        uid = seen.signed_in.user.uid

        def look(tx: Transaction) -> RecoveryPage | None:
            if not tx.users.has_second_factor(uid):
                return None
            codes = tx.credentials.recovery_codes_of(uid)
            since = None if codes.made_at is None else When(codes.made_at, request.at)
            return RecoveryPage(RECOVERY_CODES, seen.csrf, codes.left, since)

        page = await self.site.store.read(look)
        if page is None:
            # There is nothing that they could stand in for.
            return self.site.goes_to(SECURITY)
        return self.site.page(request, page, user=seen.signed_in.user, headers=seen.headers)

    async def post(self, request: Request) -> Response:
        """A new set, shown once; those before it count no more."""
        found = await secured_form(self.site, request)
        if isinstance(found, Response):
            return found
        seen, site, now = found[0], self.site, request.at
        fresh, key = FreshCodes.draw(site.random), site.keyring.fingerprint_key

        def work(tx: Transaction) -> tuple[str, ...]:
            user = still_there(tx, site, seen, now)
            # Held: a second factor that is removed meanwhile takes its codes along.
            tx.users.find_to_change(user.uid)
            if not tx.users.has_second_factor(user.uid):
                return ()
            return issue_recovery_codes(tx, user, fresh, key, now)

        codes = await site.store.write(work, done_by=by_user(seen.signed_in.user.uid))
        return codes_page(site, request, seen, codes) if codes else site.goes_to(SECURITY)

    async def download(self, request: Request) -> Response:
        """The codes that a page of ours has just shown, as a file."""
        found = await posted(self.site, request)
        if isinstance(found, Response):
            return found
        seen, form = found
        sealer, now = self.site.keyring.sealer, request.at
        shown = open_ticket(form.get("codes") or "", _Shown, _PURPOSE, sealer, now)
        if shown is None or shown.uid != seen.signed_in.user.uid:
            return self.site.goes_to(RECOVERY_CODES)
        lines = (f"{self.site.issuer}  {seen.signed_in.user.username}", "", *shown.codes, "")
        return Response(
            200,
            "\r\n".join(lines).encode(),
            (
                ("content-type", "text/plain; charset=utf-8"),
                ("content-disposition", 'attachment; filename="recovery-codes.txt"'),
            ),
        )


def codes_page(site: Site, request: Request, seen: Visit, codes: tuple[str, ...]) -> Response:
    """The page that shows a set, this once."""
    shown = _Shown(
        uid=seen.signed_in.user.uid,
        browser="",
        expires_at=later(request.at, _SHOWN),
        codes=codes,
    )
    sealed = seal_ticket(shown, _PURPOSE, site.keyring.sealer, site.random)
    page = RecoveryCodesPage(DOWNLOAD, seen.csrf, sealed, codes)
    return site.page(request, page, user=seen.signed_in.user, headers=seen.headers)
