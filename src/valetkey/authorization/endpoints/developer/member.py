"""Who may see an app in the portal: its team, and nobody else learns that there is one."""

from urllib.parse import unquote

from valetkey.authorization.deeds.developer.ownership import OwnApp, find_own
from valetkey.authorization.endpoints.account.visit import Visit, nothing_there
from valetkey.authorization.model.register.client import Client
from valetkey.authorization.pages.developer.head import AppHead
from valetkey.authorization.site.site import Site, logo_of
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.web.exchange import Request


async def require_member(site: Site, request: Request, seen: Visit, client_id: str) -> Client:
    """The app of this id, as it stands in the path, for anybody in its team.

    Refused with `not_found`, in the same words for an app of others and for none.
    """
    return (await own_app(site, request, seen, client_id)).client


async def require_owner(site: Site, request: Request, seen: Visit, client_id: str) -> OwnApp:
    """The same for its owners. Refused with `forbidden` for the others of its team."""
    app = await own_app(site, request, seen, client_id)
    if not app.membership.owns:
        raise Refused(
            Refusal(
                ErrorCode.FORBIDDEN,
                "only an owner of this app may do that; ask one of them",
                "developer.owner",
            )
        )
    return app


async def own_app(site: Site, request: Request, seen: Visit, client_id: str = "") -> OwnApp:
    """The app that the path names, and what the visitor is to it. Refused with `not_found`."""
    named = decoded(client_id or request.arguments["client_id"])
    uid = seen.signed_in.user.uid
    app = None
    if named:
        app = await site.store.read(lambda tx: find_own(tx, named, uid))
    if app is None:
        raise nothing_there("app")
    return app


def decoded(segment: str) -> str:
    """The id that a segment of a path stands for; "" for what no client is called."""
    try:
        client_id = unquote(segment, errors="strict")
    except UnicodeDecodeError:
        return ""
    return client_id if client_id.isascii() and client_id.isprintable() else ""


def head_of(app: OwnApp) -> AppHead:
    """What every page of the app shows of it."""
    return AppHead(
        client_id=app.client.id,
        name=app.name,
        logo_url=logo_of(app.client),
        owns=app.membership.owns,
        disabled=app.client.disabled_at is not None,
        has_secret=app.client.has_secret,
    )
