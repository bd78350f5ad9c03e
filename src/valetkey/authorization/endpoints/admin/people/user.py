"""/admin/users/{uid}: one person, and what is done for them, to them and with them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from urllib.parse import quote

from valetkey.authorization.deeds.account.connected_apps import ConnectedApp, connected_apps
from valetkey.authorization.deeds.admin.people import PeopleDesk
from valetkey.authorization.deeds.admin.permissions import (
    Actor,
    Permission,
    Powers,
    powers_of,
    require,
)
from valetkey.authorization.deeds.admin.roles import Roles
from valetkey.authorization.deeds.admin.search import Dossier, is_gone, look_at
from valetkey.authorization.endpoints.account.step_up import stepped_up
from valetkey.authorization.endpoints.account.visit import Visit
from valetkey.authorization.endpoints.admin.people.addresses import USERS, user_address
from valetkey.authorization.endpoints.admin.people.users import line_of, uid_of
from valetkey.authorization.endpoints.admin.things.addresses import EVENTS
from valetkey.authorization.endpoints.admin.visit import (
    actor_of,
    administered,
    administered_form,
    nothing_here,
)
from valetkey.authorization.layout.contexts import SessionLine, When
from valetkey.authorization.model.account.role import Role
from valetkey.authorization.model.account.user import Uid, User
from valetkey.authorization.pages.admin.people.user import (
    Act,
    ActPage,
    EventLine,
    FactorLine,
    UserAppLine,
    UserPage,
    Way,
)
from valetkey.authorization.pages.admin.people.users import ROLE_WORDS
from valetkey.authorization.sign_in.user_agent import browser_of
from valetkey.authorization.site.site import Site
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant, minutes
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.secret import Secret
from valetkey.kernel.words import translatable
from valetkey.web.exchange import Request, Response
from valetkey.web.form import Form, read_query

_NEWS = minutes(5)
_NO_ROLE = "none"


@dataclass(frozen=True, slots=True)
class _Rule:
    """What an act needs, and by which event it is known that it happened."""

    permission: Permission
    event: str
    steps_up: bool = False


RULES: Mapping[Act, _Rule] = MappingProxyType(
    {
        Act.SIGN_OUT: _Rule(Permission.RESET, "session.ended"),
        Act.RESET_MAIL: _Rule(Permission.RESET, "password_reset.requested", steps_up=True),
        Act.RESET_FACTORS: _Rule(Permission.RESET, "factors.removed", steps_up=True),
        Act.VERIFY_EMAIL: _Rule(Permission.PEOPLE, "user.changed"),
        Act.LET_REGISTER: _Rule(Permission.PEOPLE, "developer.admitted"),
        Act.STOP_REGISTER: _Rule(Permission.PEOPLE, "developer.dismissed"),
        Act.ROLE: _Rule(Permission.ROLES, "role.changed", steps_up=True),
        Act.DISABLE: _Rule(Permission.PEOPLE, "user.disabled"),
        Act.ENABLE: _Rule(Permission.PEOPLE, "user.enabled"),
        Act.END_APP: _Rule(Permission.PEOPLE, "grant.revoked"),
        Act.DELETE: _Rule(Permission.PEOPLE, "user.removed", steps_up=True),
    }
)
"""In the order in which they are offered."""


@dataclass(frozen=True, slots=True)
class UserEndpoint:
    """One person."""

    site: Site
    desk: PeopleDesk
    roles: Roles
    by_invitation: bool
    """Only those whom somebody lets may register apps."""

    async def get(self, request: Request) -> Response:
        """Everything that may be seen. What it says was done is true, whatever the address says."""
        seen = await administered(self.site, request)
        if isinstance(seen, Response):
            return seen
        uid, actor, now = _uid(request), actor_of(seen), request.at
        act = _act(read_query(request.query).get("done") or "")

        def work(tx: Transaction) -> tuple[Dossier, bool, bool]:
            found = look_at(tx, actor, uid, now)
            since = Instant(now - _NEWS)
            news = act is not None and tx.people.did(actor.done_by, RULES[act].event, uid, since)
            return found, tx.members.is_developer(uid), news

        dossier, develops, is_news = await self.site.store.scan(work)
        powers, mails = powers_of(seen.signed_in.user.role), self.desk.removal.mailroom.is_on
        admitted = develops if self.by_invitation or develops else None
        page = _page(dossier, powers, now, admitted=admitted, mails=mails)
        if is_news:
            page = replace(page, done=act)
        return self.site.page(request, page, user=seen.signed_in.user, headers=seen.headers)

    async def ask(self, request: Request) -> Response:
        """The question before something is done."""
        act = self._asked(request)
        rule = RULES[act]
        seen = await administered(self.site, request, rule.permission)
        if isinstance(seen, Response):
            return seen
        if rule.steps_up and (asked := await stepped_up(self.site, request, seen)) is not None:
            return asked
        uid, actor, now = _uid(request), actor_of(seen), request.at
        query = read_query(request.query)
        app_id, role = query.get("app") or "", query.get("role") or ""

        def work(tx: Transaction) -> ActPage:
            user = tx.users.find(uid)
            if user is None or is_gone(user):
                raise nothing_here()
            require(tx, actor, rule.permission, user)
            page = _question(act, user, seen, now, connected_apps(tx, uid, now), app_id)
            if act is Act.ROLE and role in set(Role):
                page = replace(page, chosen=role)
            return replace(
                page,
                sessions=len(tx.sessions.live_of(uid, now)),
                orphans=len(self.desk.removal.hindrances(tx, user)),
            )

        page = await self.site.store.scan(work)
        return self.site.page(request, page, user=seen.signed_in.user, headers=seen.headers)

    async def act(self, request: Request) -> Response:
        """Do it."""
        act = self._asked(request)
        rule = RULES[act]
        found = await administered_form(self.site, request, rule.permission)
        if isinstance(found, Response):
            return found
        seen, form = found
        if rule.steps_up and (asked := await stepped_up(self.site, request, seen)) is not None:
            return asked
        uid, actor, now = _uid(request), actor_of(seen), request.at
        link = self.desk.links.fresh()
        await self.site.store.write(
            lambda tx: self._do(tx, act, actor, uid, form, link, now), done_by=actor.done_by
        )
        if act is Act.DELETE:
            return self.site.goes_to(f"{USERS}?deleted={uid}")
        return self.site.goes_to(f"{user_address(uid)}?done={act}")

    def _do(
        self,
        tx: Transaction,
        act: Act,
        actor: Actor,
        uid: Uid,
        form: Form,
        link: Secret,
        now: Instant,
    ) -> None:
        match act:
            case Act.SIGN_OUT:
                self.desk.sign_out(tx, actor, uid, now)
            case Act.RESET_MAIL:
                self.desk.send_reset(tx, actor, uid, link, now)
            case Act.RESET_FACTORS:
                self.desk.reset_factors(tx, actor, uid, now)
            case Act.END_APP:
                client_id = _storable(form.get("app") or "")
                self.desk.end_app(tx, actor, uid, client_id, now)
            case Act.ROLE:
                self.roles.change(tx, actor, uid, _role(form.get("role") or ""), now)
            case _:
                self._change(tx, act, actor, uid, now)

    def _change(self, tx: Transaction, act: Act, actor: Actor, uid: Uid, now: Instant) -> None:
        desk = self.desk
        match act:
            case Act.VERIFY_EMAIL:
                desk.verify_email(tx, actor, uid, now)
            case Act.LET_REGISTER | Act.STOP_REGISTER:
                desk.let_register(tx, actor, uid, now, on=act is Act.LET_REGISTER)
            case Act.DISABLE:
                desk.disable(tx, actor, uid, now)
            case Act.ENABLE:
                desk.enable(tx, actor, uid, now)
            case Act.DELETE:
                desk.delete(tx, actor, uid, now)
            case _:
                raise nothing_here()

    def _asked(self, request: Request) -> Act:
        act = _act(request.arguments["act"])
        if act is None:
            raise nothing_here()
        return act


def _page(
    dossier: Dossier, powers: Powers, now: Instant, *, admitted: bool | None, mails: bool
) -> UserPage:
    user = dossier.user
    return UserPage(
        person=line_of(user, now),
        develops=admitted,
        factors=tuple(
            FactorLine(
                each.kind,
                each.name,
                each.count,
                When(each.since, now),
                None if each.last_used_at is None else When(each.last_used_at, now),
            )
            for each in dossier.factors
        ),
        sessions=tuple(
            SessionLine(
                each.id,
                *browser_of(each.user_agent),
                When(each.created_at, now),
                When(each.last_seen_at, now),
            )
            for each in dossier.sessions
        ),
        apps=tuple(_app_line(app, user, powers, now) for app in dossier.apps),
        events=tuple(
            EventLine(each.name, When(each.at, now), each.done_by) for each in dossier.events
        ),
        events_url=f"{EVENTS}?person=uid:{user.uid}",
        ways=_ways(dossier, powers, admitted=admitted, mails=mails),
    )


def _app_line(app: ConnectedApp, user: User, powers: Powers, now: Instant) -> UserAppLine:
    ends = powers.allow(RULES[Act.END_APP].permission, user)
    url = f"{user_address(user.uid)}/{Act.END_APP}?app={quote(app.client.id, safe='')}"
    return UserAppLine(
        app.name,
        When(app.since, now),
        None if app.last_used_at is None else When(app.last_used_at, now),
        url if ends else "",
    )


def _ways(
    dossier: Dossier, powers: Powers, *, admitted: bool | None, mails: bool
) -> tuple[Way, ...]:
    user = dossier.user
    pointless = {
        Act.END_APP,
        Act.DISABLE if user.disabled_at is not None else Act.ENABLE,
        Act.LET_REGISTER if admitted else Act.STOP_REGISTER,
    }
    if admitted is None:
        pointless.add(Act.LET_REGISTER)
    if user.email_verified_at is not None:
        pointless.add(Act.VERIFY_EMAIL)
    if not mails or user.disabled_at is not None or user.email_verified_at is None:
        pointless.add(Act.RESET_MAIL)
    if not any(factor.kind != "password" for factor in dossier.factors):
        pointless.add(Act.RESET_FACTORS)
    if not dossier.sessions:
        pointless.add(Act.SIGN_OUT)
    return tuple(
        Way(act, f"{user_address(user.uid)}/{act}")
        for act, rule in RULES.items()
        if act not in pointless and powers.allow(rule.permission, user)
    )


def _question(
    act: Act,
    user: User,
    seen: Visit,
    now: Instant,
    apps: Sequence[ConnectedApp],
    app_id: str,
) -> ActPage:
    app = next((each for each in apps if each.client.id == app_id), None)
    if act is Act.END_APP and app is None:
        raise nothing_here()
    roles: tuple[tuple[str, str], ...] = ()
    if act is Act.ROLE:
        none = translatable("No role")
        roles = ((_NO_ROLE, none), *((role.value, ROLE_WORDS[role]) for role in Role))
    return ActPage(
        act=act,
        action=f"{user_address(user.uid)}/{act}",
        back=user_address(user.uid),
        csrf=seen.csrf,
        person=line_of(user, now),
        apps=len(apps),
        app="" if app is None or act is not Act.END_APP else app.client.id,
        app_name="" if app is None else app.name,
        roles=roles,
        chosen=user.role.value if user.role else _NO_ROLE,
    )


def _uid(request: Request) -> Uid:
    uid = uid_of(request.arguments["uid"])
    if uid is None:
        raise nothing_here()
    return uid


def _act(text: str) -> Act | None:
    return Act(text) if text in RULES else None


def _role(text: str) -> Role | None:
    if text == _NO_ROLE:
        return None
    if text not in set(Role):
        raise Refused(Refusal(ErrorCode.INVALID_REQUEST, "choose one of the roles", "admin.role"))
    return Role(text)


def _storable(client_id: str) -> str:
    # Nobody is called by what no database stores; asking would be a fault of ours.
    return client_id if client_id.isascii() and client_id.isprintable() else ""
