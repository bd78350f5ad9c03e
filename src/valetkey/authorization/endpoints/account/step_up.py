"""When users have to prove again who they are, before something that matters."""

from valetkey.authorization.endpoints.account.visit import Visit
from valetkey.authorization.layout.return_path import safe_return_path
from valetkey.authorization.sign_in.session import SignedIn
from valetkey.authorization.site.site import Site
from valetkey.web.exchange import Request, Response

CONFIRM = "/account/confirm"


async def confirmation_needed(
    site: Site, request: Request, signed_in: SignedIn, to: str = ""
) -> str:
    """The page that asks who is signed in to prove it; "" if they did so within ten minutes.

    Where the account has a second factor, a password is not enough. The page leads back to `to`, or
    to the path of the request, by GET. So ask before the page with the form is shown, and again
    where the form arrives.
    """
    uid = signed_in.user.uid
    guarded = await site.store.read(lambda tx: tx.users.has_second_factor(uid))
    if signed_in.has_proved(request.at, second_factor=guarded):
        return ""
    place = safe_return_path(to or request.path)
    return f"{CONFIRM}?to={place}" if place else CONFIRM


async def stepped_up(site: Site, request: Request, seen: Visit, to: str = "") -> Response | None:
    """The redirect to `confirmation_needed`, or None where it is not."""
    asks = await confirmation_needed(site, request, seen.signed_in, to)
    return site.goes_to(asks, *seen.headers) if asks else None
