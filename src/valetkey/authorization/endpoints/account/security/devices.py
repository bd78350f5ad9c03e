"""POST /account/security/devices: ask for the second factor again, in one browser or in all."""

from dataclasses import dataclass

from valetkey.authorization.endpoints.account.security.addresses import SECURITY
from valetkey.authorization.endpoints.account.security.secured import secured_form, still_there
from valetkey.authorization.endpoints.account.visit import nothing_there
from valetkey.authorization.endpoints.visitor.site import Site
from valetkey.authorization.model.event.actor import by_user
from valetkey.authorization.sign_in.factors.device import forget_device, forget_devices
from valetkey.authorization.storage.transaction import Transaction
from valetkey.web.exchange import Request, Response


@dataclass(frozen=True, slots=True)
class DevicesEndpoint:
    """The remembered devices of who is signed in."""

    site: Site

    async def post(self, request: Request) -> Response:
        """Forget the one that is named, or all where none is."""
        found = await secured_form(self.site, request, to=SECURITY)
        if isinstance(found, Response):
            return found
        seen, form = found
        only, now = form.get("device"), request.at

        def work(tx: Transaction) -> bool:
            user = still_there(tx, self.site, seen, now)
            if only is None:
                forget_devices(tx, user.uid, now)
                return True
            return forget_device(tx, user.uid, only, now)

        if only is not None and not (only.isascii() and only.isprintable()):
            raise nothing_there("device")
        if not await self.site.store.write(work, done_by=by_user(seen.signed_in.user.uid)):
            raise nothing_there("device")
        return self.site.goes_to(f"{SECURITY}?done=device-forgotten")
