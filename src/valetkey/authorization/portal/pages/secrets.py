"""/developer/apps/{client_id}/secrets: list the client secrets, issue another, revoke one."""

from collections.abc import Callable
from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.actions.clients import MOST_SECRETS
from valetkey.authorization.actions.developer.secrets import (
    AppSecrets,
    NoNewSecret,
    Overlap,
    seen_in_url,
    state_of,
)
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.site.developer.app import (
    APP,
    CONFIGURATION,
    AppHead,
    AppRequest,
    confirmed_at,
    member_of_app,
)
from valetkey.authorization.site.page import (
    Act,
    AnyPage,
    Outcome,
    Page,
    PageVisit,
    SeeOther,
    Show,
    not_found,
)
from valetkey.authorization.site.shown_once import (
    COPIED,
    NEW_SECRET,
    NewSecretPage,
    ShownValue,
)
from valetkey.authorization.storage.clients import SecretSummary
from valetkey.authorization.storage.transaction import Store
from valetkey.kernel.moment import Instant
from valetkey.kernel.secret import Prefix, fresh_secret
from valetkey.kernel.words import translatable

_CONFLICT = 409


class SecretLine(Struct, frozen=True):
    """One valid secret. `ends_in` is in seconds, 0 for one that does not expire."""

    id: str
    ending: str
    created: When
    last_used: When | None
    ends_in: int = 0


class SecretsPage(Struct, frozen=True):
    """The context of secrets.html. Its form posts `csrf`, `seen` and `overlap`.

    `seen_in_url` is when a secret was last sent in a URL. `trouble`: others, full.
    """

    template: ClassVar[str] = "developer/secrets.html"
    scripts: ClassVar[tuple[str, ...]] = ("times.js",)

    app: AppHead
    action: str
    seen: str
    secrets: tuple[SecretLine, ...]
    full: bool = False
    seen_in_url: When | None = None
    url_requests: int = 0
    trouble: str = ""
    ended: bool = False


def new_secret_page(app: AppHead, secret: str, overlap: Overlap | None) -> NewSecretPage:
    """Return the page with a new secret; the previous one, if any, stays valid for `overlap`."""
    return NewSecretPage(
        title=NEW_SECRET,
        back=app.at("secrets"),
        above="",
        copied=(ShownValue("client-secret", secret, translatable("Copy the client secret")),),
        before=(_COPY_NOW,),
        after=(_DEPLOY[overlap], _STORE),
        done=COPIED,
        frame="developer/frame.html",
        app=app,
    )


_COPY_NOW = translatable(
    "Copy the secret now. It is shown only once, because only a fingerprint of it is stored."
)
_DEPLOY = {
    Overlap.HOUR: translatable("Deploy it within an hour; then the old secret expires."),
    Overlap.DAY: translatable("Deploy it within 24 hours; then the old secret expires."),
    Overlap.WEEK: translatable("Deploy it within seven days; then the old secret expires."),
    Overlap.UNTIL_ENDED: translatable(
        "Deploy it, check on this page that it is used, then revoke the old secret."
    ),
    None: translatable("Deploy it; until then the app gets no tokens."),
}
_STORE = translatable(
    "Store it where only your server can read it, never in source code or in a browser."
)


class EndSecretPage(Struct, frozen=True):
    """The context of end_secret.html. Its form posts `csrf` and `secret`."""

    template: ClassVar[str] = "developer/end_secret.html"
    scripts: ClassVar[tuple[str, ...]] = ("times.js",)

    app: AppHead
    action: str
    secret: SecretLine
    #: No other secret without an expiry is valid.
    last: bool = False


class Secrets(Struct, frozen=True):
    """Manage the secrets of an app. Every page requires recent authentication."""

    store: Store
    random: Callable[[int], bytes]
    secrets: AppSecrets

    def pages(self) -> tuple[AnyPage, ...]:
        """Return the pages of this feature."""
        title = translatable("Secrets")
        issue, revoke = Act(self.issue), Act(self.revoke)
        return (
            Page(f"{APP}/secrets", _may_manage, self.show, issue, title=title, nav=CONFIGURATION),
            Page(f"{APP}/secrets/end", _may_manage, self.ask_to_revoke, revoke, title=title),
        )

    async def show(self, request: AppRequest) -> Outcome:
        """Show the list of secrets."""
        return await self._list(request, ended="ended" in request.query)

    async def issue(self, request: AppRequest) -> Outcome:
        """Issue another secret and show it once."""
        chosen = request.form.get("overlap") or Overlap.DAY.value
        overlap = next((one for one in Overlap if one == chosen), Overlap.DAY)
        secret = fresh_secret(Prefix.CLIENT_SECRET, self.random)
        client, uid, now = request.client, request.user.uid, request.now
        state = request.form.get("seen") or ""
        obstacle = await self.store.write(
            lambda tx: self.secrets.issue(
                tx, client.id, uid, secret, now, seen=state, overlap=overlap
            ),
            done_by=request.actor,
        )
        if obstacle in {NoNewSecret.GONE, NoNewSecret.NONE}:
            raise not_found("app")
        if obstacle is not None:
            return await self._list(request, trouble=obstacle.value)
        had = any(each.is_live(now) for each in client.secrets)
        return Show(new_secret_page(request.head, secret.reveal(), overlap if had else None))

    async def ask_to_revoke(self, request: AppRequest) -> Outcome:
        """Ask before a secret is revoked."""
        client_id, now, head = request.client.id, request.now, request.head
        live = await self.store.read(lambda tx: tx.secrets.live(client_id, now))
        chosen = request.query.get("secret")
        secret = next((each for each in live if each.id == chosen), None)
        if secret is None:
            return SeeOther(head.at("secrets"))
        last = not any(each.expires_at is None for each in live if each is not secret)
        line = _line(secret, now)
        return Show(EndSecretPage(head, head.at("secrets/end"), line, last=last))

    async def revoke(self, request: AppRequest) -> Outcome:
        """Revoke the secret."""
        client_id, uid, now = request.client.id, request.user.uid, request.now
        chosen, place = request.form.get("secret") or "", request.head.at("secrets")
        ended = chosen.isascii() and await self.store.write(
            lambda tx: self.secrets.end(tx, client_id, uid, chosen, now), done_by=request.actor
        )
        return SeeOther(f"{place}?ended=1" if ended else place)

    async def _list(self, request: AppRequest, *, trouble: str = "", ended: bool = False) -> Show:
        now, client_id, head = request.now, request.client.id, request.head
        live, sighting = await self.store.read(
            lambda tx: (tx.secrets.live(client_id, now), tx.clients.query_credential_use(client_id))
        )
        exposed = seen_in_url(live, sighting)
        context = SecretsPage(
            head,
            head.at("secrets"),
            state_of(live),
            tuple(_line(each, now) for each in live),
            full=len(live) >= MOST_SECRETS,
            seen_in_url=None if exposed is None else When(exposed.last_seen_at, now),
            url_requests=0 if exposed is None else exposed.requests,
            trouble=trouble,
            ended=ended,
        )
        return Show(context, _CONFLICT if trouble else 200)


async def _may_manage(visit: PageVisit) -> AppRequest:
    member = await member_of_app(visit)
    if not member.client.has_secret:
        raise not_found("app")
    return await confirmed_at(visit, member, "secrets")


def _line(secret: SecretSummary, now: Instant) -> SecretLine:
    return SecretLine(
        secret.id,
        secret.ending,
        When(secret.created_at, now),
        None if secret.last_used_at is None else When(secret.last_used_at, now),
        0 if secret.expires_at is None else secret.expires_at - now,
    )
