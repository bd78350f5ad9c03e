"""/account/security/recovery-codes: how many are left, a new set, and the set as a file."""

from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.actions.account.factors import FreshCodes, issue_recovery_codes
from valetkey.authorization.authentication.browsers import Browsers
from valetkey.authorization.authentication.factors.proof import Factors
from valetkey.authorization.layout.addresses import SECURITY
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.site.account.security.confirm import require_still_signed_in
from valetkey.authorization.site.page import (
    Act,
    Download,
    Outcome,
    Page,
    SeeOther,
    Show,
    SignedInRequest,
    confirmed,
    signed_in,
)
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.kernel.moment import later, minutes
from valetkey.kernel.seal import Ticket, open_ticket, seal_ticket
from valetkey.kernel.words import translatable

RECOVERY_CODES = "/account/security/recovery-codes"
DOWNLOAD = "/account/security/recovery-codes/download"

_SHOWN = minutes(15)
_PURPOSE = "recovery codes"


class _Shown(Ticket, frozen=True, array_like=True, kw_only=True):
    """The codes on a page, sealed, for the download of the same codes."""

    codes: tuple[str, ...]


class RecoveryPage(Struct, frozen=True):
    """The context of recovery_codes.html. Its form posts `csrf` for a new set."""

    template: ClassVar[str] = "account/security/recovery_codes.html"

    action: str
    csrf: str
    left: int
    since: When | None = None


class RecoveryCodesPage(Struct, frozen=True):
    """The context of new_recovery_codes.html.

    Its form posts `csrf` and `codes` (the set, sealed) for the file.
    """

    template: ClassVar[str] = "account/security/new_recovery_codes.html"
    scripts: ClassVar[tuple[str, ...]] = ("copy.js",)

    download: str
    csrf: str
    sealed: str
    codes: tuple[str, ...]


class RecoveryCodes(Struct, frozen=True):
    """Issue recovery codes to the signed-in user; they are shown once."""

    store: Store
    browsers: Browsers
    factors: Factors

    def pages(self) -> tuple[Page[SignedInRequest], ...]:
        """The page, and the form that downloads a set just shown."""
        title = translatable("Recovery codes")
        return (
            Page(RECOVERY_CODES, confirmed, self.show, Act(self.issue), title=title),
            Page(DOWNLOAD, signed_in, act=Act(self.download)),
        )

    async def show(self, request: SignedInRequest) -> Outcome:
        """Show the number of codes left."""
        uid, now = request.user.uid, request.now

        def read(tx: Transaction) -> RecoveryPage | None:
            if not tx.users.has_second_factor(uid):
                return None
            codes = tx.credentials.recovery_codes_of(uid)
            since = None if codes.made_at is None else When(codes.made_at, now)
            return RecoveryPage(RECOVERY_CODES, request.csrf, codes.left, since)

        context = await self.store.read(read)
        # Without a second factor there is nothing that codes could replace.
        return SeeOther(SECURITY) if context is None else Show(context)

    async def issue(self, request: SignedInRequest) -> Outcome:
        """Issue a new set, which replaces the old one, and show it once."""
        now = request.now
        fresh, key = FreshCodes.draw(self.browsers.random), self.browsers.keyring.fingerprint_key

        def issue(tx: Transaction) -> tuple[str, ...]:
            user = require_still_signed_in(tx, self.browsers, request)
            # Held: a second factor that is removed meanwhile takes its codes along.
            tx.users.find_to_change(user.uid)
            if not tx.users.has_second_factor(user.uid):
                return ()
            return issue_recovery_codes(tx, user, fresh, key, now)

        codes = await self.store.write(issue, done_by=request.actor)
        return show_codes(self.factors, request, codes) if codes else SeeOther(SECURITY)

    async def download(self, request: SignedInRequest) -> Outcome:
        """The codes that a page has just shown, as a file."""
        sealer = self.browsers.keyring.sealer
        sealed = request.form.get("codes") or ""
        shown = open_ticket(sealed, _Shown, _PURPOSE, sealer, _SHOWN, request.now)
        if shown is None or shown.uid != request.user.uid:
            return SeeOther(RECOVERY_CODES)
        lines = (f"{self.browsers.issuer}  {request.user.username}", "", *shown.codes, "")
        return Download("recovery-codes.txt", "text/plain", "\r\n".join(lines).encode())


def show_codes(factors: Factors, request: SignedInRequest, codes: tuple[str, ...]) -> Show:
    """The page that shows a set, this once."""
    shown = _Shown(
        uid=request.user.uid, browser="", expires_at=later(request.now, _SHOWN), codes=codes
    )
    sealed = seal_ticket(shown, _PURPOSE, factors.keyring.sealer, factors.random)
    return Show(RecoveryCodesPage(DOWNLOAD, request.csrf, sealed, codes))
