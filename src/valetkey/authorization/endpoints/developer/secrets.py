"""/developer/apps/{client_id}/secrets: those there are, one more, the end of one."""

from dataclasses import dataclass

from valetkey.authorization.deeds.clients import MOST_SECRETS
from valetkey.authorization.deeds.developer.ownership import OwnApp
from valetkey.authorization.deeds.developer.secrets import (
    AppSecrets,
    Obstacle,
    Overlap,
    seen_in_url,
    state_of,
)
from valetkey.authorization.endpoints.account.step_up import stepped_up
from valetkey.authorization.endpoints.account.visit import Visit, nothing_there, posted, visit
from valetkey.authorization.endpoints.developer.member import head_of, own_app
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.model.event.actor import by_user
from valetkey.authorization.pages.developer.secrets.pages import (
    EndSecretPage,
    NewSecretPage,
    SecretLine,
    SecretsPage,
)
from valetkey.authorization.site.site import Site
from valetkey.authorization.storage.register.secrets import KnownSecret
from valetkey.kernel.moment import Instant
from valetkey.kernel.secret import Prefix, fresh_secret
from valetkey.web.exchange import Request, Response
from valetkey.web.form import read_query

_CONFLICT = 409


@dataclass(frozen=True, slots=True)
class SecretsEndpoint:
    """Everything here asks first whether it is really them (security 36)."""

    site: Site
    secrets: AppSecrets

    async def get(self, request: Request) -> Response:
        """The list."""
        found = await self._seen(request)
        if isinstance(found, Response):
            return found
        ended = "ended" in read_query(request.query)
        return await self._page(request, *found, ended=ended)

    async def post(self, request: Request) -> Response:
        """One more, shown this once."""
        sent = await posted(self.site, request)
        if isinstance(sent, Response):
            return sent
        seen, form = sent
        app = await self._own(request, seen)
        if back := await stepped_up(self.site, request, seen, head_of(app).at("secrets")):
            return back
        chosen = form.get("overlap") or Overlap.DAY.value
        overlap = next((one for one in Overlap if one == chosen), Overlap.DAY)
        secret = fresh_secret(Prefix.CLIENT_SECRET, self.site.random)
        uid, now, state = seen.signed_in.user.uid, request.at, form.get("seen") or ""
        obstacle = await self.site.store.write(
            lambda tx: self.secrets.issue(
                tx, app.client.id, uid, secret, now, seen=state, overlap=overlap
            ),
            done_by=by_user(uid),
        )
        if obstacle in {Obstacle.GONE, Obstacle.NONE}:
            raise nothing_there("app")
        if obstacle is not None:
            return await self._page(request, seen, app, trouble=obstacle.value)
        had = any(each.is_live(now) for each in app.client.secrets)
        page = NewSecretPage(head_of(app), secret.reveal(), overlap.value if had else "")
        return self.site.page(request, page, user=seen.signed_in.user, headers=seen.headers)

    async def ask(self, request: Request) -> Response:
        """The question before one ends."""
        found = await self._seen(request)
        if isinstance(found, Response):
            return found
        seen, app = found
        live = await self._live(app, request.at)
        chosen = read_query(request.query).get("secret")
        secret = next((each for each in live if each.id == chosen), None)
        if secret is None:
            return self.site.goes_to(head_of(app).at("secrets"))
        head = head_of(app)
        page = EndSecretPage(
            head,
            head.at("secrets/end"),
            seen.csrf,
            _line(secret, request.at),
            last=not any(each.expires_at is None for each in live if each is not secret),
        )
        return self.site.page(request, page, user=seen.signed_in.user, headers=seen.headers)

    async def end(self, request: Request) -> Response:
        """End it."""
        sent = await posted(self.site, request)
        if isinstance(sent, Response):
            return sent
        seen, form = sent
        app = await self._own(request, seen)
        place = head_of(app).at("secrets")
        if back := await stepped_up(self.site, request, seen, place):
            return back
        uid, now, chosen = seen.signed_in.user.uid, request.at, form.get("secret") or ""
        ended = chosen.isascii() and await self.site.store.write(
            lambda tx: self.secrets.end(tx, app.client.id, uid, chosen, now),
            done_by=by_user(uid),
        )
        return self.site.goes_to(f"{place}?ended=1" if ended else place)

    async def _seen(self, request: Request) -> tuple[Visit, OwnApp] | Response:
        seen = await visit(self.site, request)
        if isinstance(seen, Response):
            return seen
        app = await self._own(request, seen)
        if back := await stepped_up(self.site, request, seen, head_of(app).at("secrets")):
            return back
        return seen, app

    async def _own(self, request: Request, seen: Visit) -> OwnApp:
        app = await own_app(self.site, request, seen)
        if not app.client.has_secret:
            raise nothing_there("app")
        return app

    async def _live(self, app: OwnApp, now: Instant) -> list[KnownSecret]:
        client_id = app.client.id
        return list(await self.site.store.read(lambda tx: tx.secrets.live(client_id, now)))

    async def _page(
        self, request: Request, seen: Visit, app: OwnApp, *, trouble: str = "", ended: bool = False
    ) -> Response:
        now, client_id, head = request.at, app.client.id, head_of(app)
        live, sighting = await self.site.store.read(
            lambda tx: (tx.secrets.live(client_id, now), tx.clients.query_sighting(client_id))
        )
        exposed = seen_in_url(live, sighting)
        page = SecretsPage(
            head,
            head.at("secrets"),
            seen.csrf,
            state_of(live),
            tuple(_line(each, now) for each in live),
            full=len(live) >= MOST_SECRETS,
            seen_in_url=None if exposed is None else When(exposed.last_seen_at, now),
            url_requests=0 if exposed is None else exposed.requests,
            trouble=trouble,
            ended=ended,
        )
        status = _CONFLICT if trouble else 200
        return self.site.page(request, page, status, user=seen.signed_in.user, headers=seen.headers)


def _line(secret: KnownSecret, now: Instant) -> SecretLine:
    return SecretLine(
        secret.id,
        secret.ending,
        When(secret.created_at, now),
        None if secret.last_used_at is None else When(secret.last_used_at, now),
        0 if secret.expires_at is None else secret.expires_at - now,
    )
