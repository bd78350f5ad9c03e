"""/developer: the apps of the user, one app with its secrets, its deletion, and invitations."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.actions.admin.search import Match
from valetkey.authorization.actions.clients import MOST_SECRETS
from valetkey.authorization.actions.inspection.refusals import plain_reference, reads_like_reference
from valetkey.authorization.actions.presets import kind_of
from valetkey.authorization.actions.teams import TeamApp, Teams, find_own, own_apps
from valetkey.authorization.layout.addresses import DEVELOPER
from valetkey.authorization.layout.contexts import Chart, When
from valetkey.authorization.layout.viewer import MenuItem
from valetkey.authorization.model.client import TeamRole
from valetkey.authorization.model.user import Uid
from valetkey.authorization.portal.pages.monitoring import daily
from valetkey.authorization.portal.pages.requests import RequestLine, refused_line
from valetkey.authorization.portal.rules.apps import (
    AppSecrets,
    NoNewSecret,
    Overlap,
    Portal,
    seen_in_url,
    state_of,
)
from valetkey.authorization.portal.rules.monitoring import Severity, activity_of, app_of_failure
from valetkey.authorization.protocol.client_authentication import BY_NAME
from valetkey.authorization.site.app_team import (
    APP,
    CONFIGURATION,
    AppHead,
    AppRequest,
    confirmed_at,
    head_of,
    member_of_app,
    owner_of_app,
)
from valetkey.authorization.site.page import (
    Act,
    AnyPage,
    Outcome,
    Page,
    PageVisit,
    SeeOther,
    Show,
    SignedInRequest,
    not_found,
    signed_in,
)
from valetkey.authorization.site.search import (
    FAILED_REQUESTS,
    MOST,
    SEARCH_TITLE,
    ResultGroup,
    SearchPage,
    Texts,
    group_of,
    pages_in,
    searched_text,
)
from valetkey.authorization.site.shown_once import COPIED, NEW_SECRET, NewSecretPage, ShownValue
from valetkey.authorization.storage.clients import SecretSummary
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.authorization.storage.usage import day_of, start_of
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.secret import Prefix, fresh_secret
from valetkey.kernel.text import translatable
from valetkey.web.body import read_query


class OwnAppLine(Struct, frozen=True):
    """One app in the list. `domain` is the host of its redirect URI, "" for none."""

    head: AppHead
    domain: str
    profile: str
    verified: bool = False


class OfferLine(Struct, frozen=True):
    """An invitation to a team; `url` is the page that answers it."""

    url: str
    app_name: str
    by: str


class OwnAppsPage(Struct, frozen=True):
    """The context of apps.html."""

    template: ClassVar[str] = "portal/pages/apps.html"

    apps: tuple[OwnAppLine, ...]
    may_register: bool = True
    #: Invitations to teams.
    offers: tuple[OfferLine, ...] = ()
    #: Whether one of the apps was just deleted.
    deleted: bool = False


class Apps(Struct, frozen=True):
    """List the apps, and the invitations to teams."""

    store: Store
    portal: Portal

    def pages(self) -> tuple[AnyPage, ...]:
        """Return the page of this feature."""
        title = translatable("Your apps")
        return (
            Page(
                DEVELOPER,
                signed_in,
                self.show,
                title=title,
                nav=True,
                docs="how-to/apps/let-developers-register.html",
            ),
        )

    async def show(self, request: SignedInRequest) -> Outcome:
        """Show the list of apps and invitations."""
        user = request.user
        apps, denial, offers = await self.store.scan(
            lambda tx: (
                own_apps(tx, user.uid),
                self.portal.registration_denial(tx, user),
                tuple(_offers(tx, user.uid, request.now)),
            )
        )
        return Show(
            OwnAppsPage(
                tuple(_line(app) for app in apps),
                may_register=denial is None,
                offers=offers,
                deleted="deleted" in request.query,
            )
        )


def _offers(tx: Transaction, uid: Uid, now: Instant) -> Iterator[OfferLine]:
    for invitation in tx.team_invitations.waiting_for(uid, now):
        client, by = tx.clients.find(invitation.client_id), tx.users.find(invitation.invited_by)
        if client is not None and by is not None:
            path = f"{INVITATIONS}{invitation.id}"
            yield OfferLine(path, client.name or client.id, by.name or by.username)


def _line(app: TeamApp) -> OwnAppLine:
    return OwnAppLine(
        head_of(app),
        app.client.domain,
        app.client.profile_name.value,
        verified=app.client.verified_at is not None,
    )


_WEEK = 7

SEARCH = f"{DEVELOPER}/search"
_TEAMS_EXAMINED = 50
"""Apps whose teams are searched for a member, by name of the app."""


class Search(Struct, frozen=True):
    """Search the portal: its pages, and what the apps of the user have."""

    store: Store
    listed: tuple[MenuItem, ...]

    def pages(self) -> tuple[AnyPage, ...]:
        """Return the page of results."""
        page = Page(SEARCH, signed_in, self.show, title=SEARCH_TITLE, under=SEARCH, searches=True)
        return (page,)

    async def show(self, request: SignedInRequest) -> Outcome:
        """Show what the text finds among the user's apps; without a text, pages and apps."""
        text, uid = searched_text(request.request), request.user.uid
        texts = Texts.from_request(text, request.request, request.user)

        def find(tx: Transaction) -> Sequence[ResultGroup]:
            apps = own_apps(tx, uid)
            return [
                *group_of(FAILED_REQUESTS, _failure(tx, text, uid)),
                *pages_in(texts, self.listed),
                *group_of(translatable("Apps"), _matching(texts, apps), DEVELOPER),
                *(self._sections(texts, apps) if text else ()),
                *(_members(tx, texts, apps) if text else ()),
            ]

        groups = await self.store.scan(find)
        hint = translatable(
            "Your apps by name or client ID, their pages and team members; a failed request by its "
            "reference, such as VK-7Q2M-4D8K-1XWZ."
        )
        return Show(SearchPage("portal/pages/frame.html", SEARCH, text, hint, tuple(groups)))

    def _sections(self, texts: Texts, apps: Sequence[TeamApp]) -> Iterator[ResultGroup]:
        """Yield the pages of an app whose title, or that with the app's name, has the words."""
        matches = [
            Match(menu_item.title, head.path(menu_item.path), head.name, translatable=True)
            for head in map(head_of, apps)
            for menu_item in self.listed
            # As in the navigation of an app.
            if "{" in menu_item.path and (head.has_secret or menu_item.title != "Secrets")
            if texts.are_in(menu_item.title, own=head.name) and not texts.are_in(own=head.name)
        ]
        yield from group_of(translatable("Pages of apps"), matches[: MOST + 1])


def _failure(tx: Transaction, text: str, uid: Uid) -> Sequence[Match]:
    reference = plain_reference(text) if reads_like_reference(text) else ""
    client_id = app_of_failure(tx, reference, uid) if reference else None
    if client_id is None:
        return ()
    return [Match(reference, f"{AppHead(client_id, '').at('failures')}/{reference}")]


def _matching(texts: Texts, apps: Sequence[TeamApp]) -> Sequence[Match]:
    return [
        Match(head.name, head.at(), head.client_id)
        for head in map(head_of, apps)
        if texts.are_in(own=f"{head.name} {head.client_id}")
    ]


def _members(tx: Transaction, texts: Texts, apps: Sequence[TeamApp]) -> Iterator[ResultGroup]:
    matches: list[Match] = []
    for head in map(head_of, apps[:_TEAMS_EXAMINED]):
        for member in tx.members.team(head.client_id):
            user = tx.users.find(member.uid)
            if user is not None and texts.are_in(own=f"{user.name} {user.username}"):
                matches.append(Match(user.name or user.username, head.at("team"), head.name))
    yield from group_of(translatable("Team members"), matches[: MOST + 1])


class OverviewPage(Struct, frozen=True):
    """The context of overview.html: the client id, the status, and what to do next.

    `kind`: server, browser, device, machine. `proof` is the label of the authentication method.
    """

    template: ClassVar[str] = "portal/pages/overview.html"
    scripts: ClassVar[tuple[str, ...]] = ("chart.js", "copy.js", "times.js")

    app: AppHead
    #: The URL of this server, which the app needs as well.
    issuer: str
    kind: str
    profile: str
    proof: str
    redirect_uris: tuple[str, ...]
    registered: When
    #: Access tokens and failed requests of the last seven days.
    tokens: Chart
    refusals: Chart
    #: The last sign-in, or the last token of an app without users; None for never.
    success: When | None = None
    failure: RequestLine | None = None
    #: The number of findings of its health that are more than hints, and that of hints.
    issues: int = 0
    hints: int = 0
    description: str = ""
    verified: bool = False
    #: The permissions it requests, each beginning with a verb.
    sentences: tuple[str, ...] = ()
    #: A live secret was sent in a URL.
    secret_seen: bool = False
    #: Whether it authenticates with a secret, and has no live one.
    without_secret: bool = False


class Overview(Struct, frozen=True):
    """Show an app to its team."""

    store: Store
    scopes: Mapping[str, str]
    issuer: str

    def pages(self) -> tuple[AnyPage, ...]:
        """Return the page of this feature."""
        return (Page(APP, member_of_app, self.show, title=translatable("Overview"), nav=True),)

    async def show(self, request: AppRequest) -> Outcome:
        """Show the overview of the app."""
        client, now, scopes = request.client, request.now, self.scopes
        today = day_of(now)
        since = start_of(today - _WEEK + 1)
        live, sighting, activity = await self.store.scan(
            lambda tx: (
                tx.secrets.usable(client.id, now),
                tx.clients.query_credential_use(client.id),
                activity_of(tx, client, since, now),
            )
        )
        days = daily(activity.days, today, _WEEK)
        dates = [day.date for day in days]
        hints = sum(finding.weight is Severity.HINT for finding in activity.findings)
        return Show(
            OverviewPage(
                app=request.head,
                issuer=self.issuer,
                kind=kind_of(client).value,
                profile=client.profile_name.value,
                proof=BY_NAME[client.authentication_method].label,
                redirect_uris=client.redirect_uris,
                registered=When(client.created_at, now),
                tokens=Chart(dates, [day.tokens for day in days]),
                refusals=Chart(dates, [day.errors for day in days]),
                success=None if activity.success is None else When(activity.success, now),
                failure=None if activity.failure is None else refused_line(activity.failure, now),
                issues=len(activity.findings) - hints,
                hints=hints,
                description=client.description,
                verified=client.verified_at is not None,
                sentences=tuple(scopes[name] for name in client.scope if name in scopes),
                secret_seen=seen_in_url(live, sighting) is not None,
                without_secret=client.has_secret and not live,
            )
        )


_UNPROCESSABLE = 422


class DeleteAppPage(Struct, frozen=True):
    """The context of delete.html. Its form posts `csrf` and `name`.

    `people` are connected, by `authorizations` that are valid.
    """

    template: ClassVar[str] = "portal/pages/delete.html"

    app: AppHead
    action: str
    people: int
    authorizations: int
    typed: str = ""
    wrong: bool = False


class DeleteApp(Struct, frozen=True):
    """Delete an app; for its owners only."""

    store: Store
    portal: Portal

    def pages(self) -> tuple[AnyPage, ...]:
        """Return the page of this feature."""
        act, title = Act(self.delete), translatable("Delete app")
        under = f"{APP}/settings"
        return (Page(f"{APP}/delete", _may_delete, self.show, act, title=title, under=under),)

    async def show(self, request: AppRequest) -> Outcome:
        """Show how many users the deletion would disconnect."""
        return await self._form(request)

    async def delete(self, request: AppRequest) -> Outcome:
        """Delete the app if its name was typed."""
        app, uid, now = request.app, request.user.uid, request.now
        typed = (request.form.get("name") or "").strip()
        if typed != app.name:
            return await self._form(request, typed=typed, wrong=True)

        def delete_if_owner(tx: Transaction) -> bool:
            held = tx.clients.find_to_change(app.client.id)
            current = None if held is None else find_own(tx, app.client.id, uid)
            if held is None or current is None or not current.membership.owns:
                return False
            self.portal.delete(tx, held, now)
            return True

        if not await self.store.write(delete_if_owner, done_by=request.actor):
            raise not_found("app")
        return SeeOther(f"{DEVELOPER}?deleted=1")

    async def _form(self, request: AppRequest, *, typed: str = "", wrong: bool = False) -> Show:
        client_id, now, head = request.client.id, request.now, request.head
        reach = await self.store.scan(lambda tx: tx.grants.usage_of(client_id, now))
        context = DeleteAppPage(
            head,
            head.at("delete"),
            people=reach.people,
            authorizations=reach.authorizations,
            typed=typed,
            wrong=wrong,
        )
        return Show(context, _UNPROCESSABLE if wrong else 200)


async def _may_delete(visit: PageVisit) -> AppRequest:
    return await confirmed_at(visit, await owner_of_app(visit), "delete")


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

    template: ClassVar[str] = "portal/pages/secrets.html"
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
        frame="portal/pages/frame.html",
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

    template: ClassVar[str] = "portal/pages/end_secret.html"
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
        had = any(client_secret.is_live(now) for client_secret in client.secrets)
        return Show(new_secret_page(request.head, secret.reveal(), overlap if had else None))

    async def ask_to_revoke(self, request: AppRequest) -> Outcome:
        """Ask before a secret is revoked."""
        client_id, now, head = request.client.id, request.now, request.head
        live = await self.store.read(lambda tx: tx.secrets.usable(client_id, now))
        chosen = request.query.get("secret")
        secret = next((candidate for candidate in live if candidate.id == chosen), None)
        if secret is None:
            return SeeOther(head.at("secrets"))
        last = not any(other.expires_at is None for other in live if other is not secret)
        line = _secret_line(secret, now)
        return Show(EndSecretPage(head, head.at("secrets/end"), line, last=last))

    async def revoke(self, request: AppRequest) -> Outcome:
        """Revoke the secret."""
        client_id, uid, now = request.client.id, request.user.uid, request.now
        chosen, path = request.form.get("secret") or "", request.head.at("secrets")
        ended = chosen.isascii() and await self.store.write(
            lambda tx: self.secrets.end(tx, client_id, uid, chosen, now), done_by=request.actor
        )
        return SeeOther(f"{path}?ended=1" if ended else path)

    async def _list(self, request: AppRequest, *, trouble: str = "", ended: bool = False) -> Show:
        now, client_id, head = request.now, request.client.id, request.head
        live, sighting = await self.store.read(
            lambda tx: (
                tx.secrets.usable(client_id, now),
                tx.clients.query_credential_use(client_id),
            )
        )
        exposed = seen_in_url(live, sighting)
        context = SecretsPage(
            head,
            head.at("secrets"),
            state_of(live),
            tuple(_secret_line(secret, now) for secret in live),
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


def _secret_line(secret: SecretSummary, now: Instant) -> SecretLine:
    return SecretLine(
        secret.id,
        secret.ending,
        When(secret.created_at, now),
        None if secret.last_used_at is None else When(secret.last_used_at, now),
        0 if secret.expires_at is None else secret.expires_at - now,
    )


INVITATIONS = f"{DEVELOPER}/invitations/"


class InvitationPage(Struct, frozen=True):
    """The context of invitation.html. Its form posts `csrf`, `link` and `do`."""

    template: ClassVar[str] = "portal/pages/invitation.html"
    title: ClassVar[str] = translatable("Team invitation")

    action: str
    link: str
    app_name: str
    by: str
    owner: bool


class Invitation(Struct, frozen=True):
    """Show an invitation; accept or decline it, once."""

    store: Store
    teams: Teams

    def pages(self) -> tuple[AnyPage, ...]:
        """Return the page of this feature. The query of its URL is the secret of the email."""
        act, title = Act(self.answer), translatable("Invitation")
        path = f"{INVITATIONS}{{invitation_id}}"
        return (Page(path, signed_in, self.show, act, title=title, hides_query=True),)

    async def show(self, request: SignedInRequest) -> Outcome:
        """Show the invitation with its form."""
        link = read_query(request.request.hidden_query).get("link") or ""
        invitation_id, user, now = _named(request), request.user, request.now

        def find(tx: Transaction) -> InvitationPage | None:
            invitation = self.teams.find(tx, invitation_id, user, link, now)
            client = None if invitation is None else tx.clients.find(invitation.client_id)
            if invitation is None or client is None:
                return None
            by = tx.users.find(invitation.invited_by)
            return InvitationPage(
                action=f"{INVITATIONS}{invitation_id}",
                link=link,
                app_name=client.name or client.id,
                by="" if by is None else by.name or by.username,
                owner=invitation.role is TeamRole.OWNER,
            )

        context = await self.store.read(find)
        if context is None:
            raise _over()
        return Show(context)

    async def answer(self, request: SignedInRequest) -> Outcome:
        """Accept or decline the invitation."""
        invitation_id, link = _named(request), request.form.get("link") or ""
        user, now = request.user, request.now
        if request.form.get("do") != "accept":
            declined = await self.store.write(
                lambda tx: self.teams.decline(tx, invitation_id, user, link, now),
                done_by=request.actor,
            )
            if not declined:
                raise _over()
            return SeeOther(DEVELOPER)
        accepted = await self.store.write(
            lambda tx: self.teams.accept(tx, invitation_id, user, link, now),
            done_by=request.actor,
        )
        if accepted is None:
            raise _over()
        return SeeOther(AppHead(accepted.client_id, "").at())


def _named(request: SignedInRequest) -> str:
    named = request.arguments["invitation_id"]
    return named if named.isascii() and named.isprintable() else ""


def _over() -> Refused:
    return Refused.because(
        ErrorCode.NOT_FOUND,
        "this account has no such invitation; if you received it by email, sign in with the "
        "account of that address and open its link again",
        "developer.invitation",
    )
