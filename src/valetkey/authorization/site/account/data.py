"""/account/data: download everything that is stored about the signed-in user."""

from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.actions.account.export import Origin, export
from valetkey.authorization.authentication.browsers import Browsers
from valetkey.authorization.authentication.session import find_still_signed_in
from valetkey.authorization.layout.addresses import SIGN_IN
from valetkey.authorization.layout.current_brand import CurrentBrand
from valetkey.authorization.site.page import (
    Act,
    Download,
    Outcome,
    Page,
    SeeOther,
    Show,
    SignedInRequest,
    confirmation_needed,
    confirmed,
    signed_in,
)
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.kernel.words import translatable

DATA = "/account/data"


class DataPage(Struct, frozen=True):
    """The context of data.html. Its form posts `csrf`; the answer is the file."""

    template: ClassVar[str] = "account/data.html"

    action: str
    csrf: str
    #: The URL of the API, which stores more; "" if there is none.
    api: str
    #: The user confirmed who they are a moment ago, so the button downloads at once.
    proved: bool = False


class Data(Struct, frozen=True):
    """Offer the file and send it."""

    store: Store
    browsers: Browsers
    brands: CurrentBrand
    api: str

    def pages(self) -> tuple[Page[SignedInRequest], ...]:
        """The page of this feature."""
        act = Act(self.download, requires=confirmed)
        return (Page(DATA, signed_in, self.show, act, title=translatable("Your data"), nav=True),)

    async def show(self, request: SignedInRequest) -> Outcome:
        """The page."""
        session = request.session
        # A user who has only just signed in was not asked to confirm on the way here.
        proved = session.proved_at > session.created_at and not await confirmation_needed(
            self.browsers, request
        )
        return Show(DataPage(DATA, request.csrf, self.api, proved=proved))

    async def download(self, request: SignedInRequest) -> Outcome:
        """The file."""
        now, session = request.now, request.session.id
        origin = Origin(self.brands.current.name, self.browsers.issuer, self.api)

        def export_own(tx: Transaction) -> bytes | None:
            asking = find_still_signed_in(tx, session, self.browsers.sessions, now)
            return None if asking is None else export(tx, asking.user, origin, now)

        file = await self.store.write(export_own, done_by=request.actor)
        if file is None:
            return SeeOther(SIGN_IN)
        return Download("account.json", "application/json", file)
