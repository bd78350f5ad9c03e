"""/admin/users/{uid}: one person, and what is done for them, to them and with them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar
from urllib.parse import quote

from valetkey.authorization.deeds.account.connected_apps import ConnectedApp, connected_apps
from valetkey.authorization.deeds.admin.people import PeopleDesk
from valetkey.authorization.deeds.admin.permissions import (
    Actor,
    Powers,
    require,
)
from valetkey.authorization.deeds.admin.roles import Roles
from valetkey.authorization.deeds.admin.search import Dossier, is_gone, look_at
from valetkey.authorization.layout.contexts import SessionLine, When
from valetkey.authorization.model.account.role import Role
from valetkey.authorization.model.account.user import Uid, User
from valetkey.authorization.sign_in.user_agent import browser_of
from valetkey.authorization.site.admin.administrator import (
    AdminRequest,
    administrator,
    administrator_for,
    nothing_here,
)
from valetkey.authorization.site.admin.events import EVENTS
from valetkey.authorization.site.admin.users.acts import RULES, UserAct
from valetkey.authorization.site.admin.users.users import (
    ROLE_WORDS,
    USERS,
    PersonLine,
    line_of,
    uid_of,
    user_address,
)
from valetkey.authorization.site.page import Act, Outcome, Page, SeeOther, Show
from valetkey.authorization.site.site import Site
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant, minutes
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.secret import Secret
from valetkey.kernel.words import translatable
from valetkey.web.exchange import Request
from valetkey.web.form import Form

USER = "/admin/users/{uid}"
ACT = "/admin/users/{uid}/{act}"


@dataclass(frozen=True, slots=True)
class FactorLine:
    """A way to sign in."""

    kind: str
    name: str
    count: int
    since: When
    last_used: When | None


@dataclass(frozen=True, slots=True)
class UserAppLine:
    """An app that may do something for them."""

    name: str
    since: When
    last_used: When | None
    #: The question before its access ends; "" where whoever looks may not ask it.
    end_url: str


@dataclass(frozen=True, slots=True)
class EventLine:
    """Something that happened to them."""

    name: str
    when: When
    #: Who did it, where it was not they themselves; else "".
    done_by: str


@dataclass(frozen=True, slots=True)
class Way:
    """Something that can be done, and the address of its question."""

    act: UserAct
    url: str


@dataclass(frozen=True, slots=True)
class UserPage:
    """Everything about one person that may be seen: no password, nothing that signs in."""

    template: ClassVar[str] = "admin/users/user.html"

    person: PersonLine
    #: Was let register apps; None where nobody needs that.
    develops: bool | None
    factors: tuple[FactorLine, ...]
    sessions: tuple[SessionLine, ...]
    apps: tuple[UserAppLine, ...]
    events: tuple[EventLine, ...]
    #: What whoever looks may do.
    ways: tuple[Way, ...]
    #: What they just did.
    done: UserAct | None = None
    #: All events; "" where there is no such page.
    events_url: str = ""


@dataclass(frozen=True, slots=True)
class ActPage:
    """Ask before it is done, and say what ends. Posts `csrf`, and `role` or `app` with them."""

    template: ClassVar[str] = "admin/users/act.html"

    act: UserAct
    action: str
    back: str
    csrf: str
    person: PersonLine
    #: How much ends.
    sessions: int = 0
    apps: int = 0
    #: The app whose access ends, by its id and its name.
    app: str = ""
    app_name: str = ""
    #: Apps that only they look after.
    orphans: int = 0
    #: The roles there are, by value and name.
    roles: tuple[tuple[str, str], ...] = ()
    #: The one they have, "none" for none.
    chosen: str = ""


_NEWS = minutes(5)
_NO_ROLE = "none"


@dataclass(frozen=True, slots=True)
class UserPages:
    """One person."""

    site: Site
    desk: PeopleDesk
    roles: Roles
    by_invitation: bool
    """Only those whom somebody lets may register apps."""

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """One user, and the confirmation before something is done with the account."""
        needed = administrator_for(
            lambda request: RULES[_asked(request)].permission,
            lambda request: "" if RULES[_asked(request)].steps_up else None,
        )
        return (
            Page(USER, administrator(), self.show),
            Page(ACT, needed, self.ask, Act(self.act)),
        )

    async def show(self, request: AdminRequest) -> Outcome:
        """Everything that may be seen. What it says was done is true, whatever the address says."""
        uid, actor, now = _uid(request), request.actor, request.now
        act = _act(request.query.get("done") or "")

        def work(tx: Transaction) -> tuple[Dossier, bool, bool]:
            found = look_at(tx, actor, uid, now)
            since = Instant(now - _NEWS)
            news = act is not None and tx.people.did(actor.done_by, RULES[act].event, uid, since)
            return found, tx.members.is_developer(uid), news

        dossier, develops, is_news = await self.site.store.scan(work)
        powers, mails = request.powers, self.desk.removal.outbox.is_on
        admitted = develops if self.by_invitation or develops else None
        page = _page(dossier, powers, now, admitted=admitted, mails=mails)
        if is_news:
            page = replace(page, done=act)
        return Show(page)

    async def ask(self, request: AdminRequest) -> Outcome:
        """The question before something is done."""
        act = _asked(request.request)
        rule = RULES[act]
        uid, actor, now = _uid(request), request.actor, request.now
        query = request.query
        app_id, role = query.get("app") or "", query.get("role") or ""

        def ask(tx: Transaction) -> ActPage:
            user = tx.users.find(uid)
            if user is None or is_gone(user):
                raise nothing_here()
            require(tx, actor, rule.permission, user)
            page = _question(act, user, request.csrf, now, connected_apps(tx, uid, now), app_id)
            if act is UserAct.ROLE and role in set(Role):
                page = replace(page, chosen=role)
            return replace(
                page,
                sessions=len(tx.sessions.live_of(uid, now)),
                orphans=len(self.desk.removal.hindrances(tx, user)),
            )

        page = await self.site.store.scan(ask)
        return Show(page)

    async def act(self, request: AdminRequest) -> Outcome:
        """Do it."""
        act = _asked(request.request)
        form = request.form
        uid, actor, now = _uid(request), request.actor, request.now
        link = self.desk.links.fresh()
        await self.site.store.write(
            lambda tx: self._do(tx, act, actor, uid, form, link, now), done_by=actor.done_by
        )
        if act is UserAct.DELETE:
            return SeeOther(f"{USERS}?deleted={uid}")
        return SeeOther(f"{user_address(uid)}?done={act}")

    def _do(
        self,
        tx: Transaction,
        act: UserAct,
        actor: Actor,
        uid: Uid,
        form: Form,
        link: Secret,
        now: Instant,
    ) -> None:
        match act:
            case UserAct.SIGN_OUT:
                self.desk.sign_out(tx, actor, uid, now)
            case UserAct.RESET_MAIL:
                self.desk.send_reset(tx, actor, uid, link, now)
            case UserAct.RESET_FACTORS:
                self.desk.reset_factors(tx, actor, uid, now)
            case UserAct.END_APP:
                client_id = _storable(form.get("app") or "")
                self.desk.end_app(tx, actor, uid, client_id, now)
            case UserAct.ROLE:
                self.roles.change(tx, actor, uid, _role(form.get("role") or ""), now)
            case _:
                self._change(tx, act, actor, uid, now)

    def _change(self, tx: Transaction, act: UserAct, actor: Actor, uid: Uid, now: Instant) -> None:
        desk = self.desk
        match act:
            case UserAct.VERIFY_EMAIL:
                desk.verify_email(tx, actor, uid, now)
            case UserAct.LET_REGISTER | UserAct.STOP_REGISTER:
                desk.let_register(tx, actor, uid, now, on=act is UserAct.LET_REGISTER)
            case UserAct.DISABLE:
                desk.disable(tx, actor, uid, now)
            case UserAct.ENABLE:
                desk.enable(tx, actor, uid, now)
            case UserAct.DELETE:
                desk.delete(tx, actor, uid, now)
            case _:
                raise nothing_here()


def _asked(request: Request) -> UserAct:
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
    ends = powers.allow(RULES[UserAct.END_APP].permission, user)
    url = f"{user_address(user.uid)}/{UserAct.END_APP}?app={quote(app.client.id, safe='')}"
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
        UserAct.END_APP,
        UserAct.DISABLE if user.disabled_at is not None else UserAct.ENABLE,
        UserAct.LET_REGISTER if admitted else UserAct.STOP_REGISTER,
    }
    if admitted is None:
        pointless.add(UserAct.LET_REGISTER)
    if user.email_verified_at is not None:
        pointless.add(UserAct.VERIFY_EMAIL)
    if not mails or user.disabled_at is not None or user.email_verified_at is None:
        pointless.add(UserAct.RESET_MAIL)
    if not any(factor.kind != "password" for factor in dossier.factors):
        pointless.add(UserAct.RESET_FACTORS)
    if not dossier.sessions:
        pointless.add(UserAct.SIGN_OUT)
    return tuple(
        Way(act, f"{user_address(user.uid)}/{act}")
        for act, rule in RULES.items()
        if act not in pointless and powers.allow(rule.permission, user)
    )


def _question(
    act: UserAct,
    user: User,
    csrf: str,
    now: Instant,
    apps: Sequence[ConnectedApp],
    app_id: str,
) -> ActPage:
    app = next((each for each in apps if each.client.id == app_id), None)
    if act is UserAct.END_APP and app is None:
        raise nothing_here()
    roles: tuple[tuple[str, str], ...] = ()
    if act is UserAct.ROLE:
        none = translatable("No role")
        roles = ((_NO_ROLE, none), *((role.value, ROLE_WORDS[role]) for role in Role))
    return ActPage(
        act=act,
        action=f"{user_address(user.uid)}/{act}",
        back=user_address(user.uid),
        csrf=csrf,
        person=line_of(user, now),
        apps=len(apps),
        app="" if app is None or act is not UserAct.END_APP else app.client.id,
        app_name="" if app is None else app.name,
        roles=roles,
        chosen=user.role.value if user.role else _NO_ROLE,
    )


def _uid(request: AdminRequest) -> Uid:
    uid = uid_of(request.arguments["uid"])
    if uid is None:
        raise nothing_here()
    return uid


def _act(text: str) -> UserAct | None:
    return UserAct(text) if text in RULES else None


def _role(text: str) -> Role | None:
    if text == _NO_ROLE:
        return None
    if text not in set(Role):
        raise Refused(Refusal(ErrorCode.INVALID_REQUEST, "choose one of the roles", "admin.role"))
    return Role(text)


def _storable(client_id: str) -> str:
    # Nobody is called by what no database stores; asking would be a fault of ours.
    return client_id if client_id.isascii() and client_id.isprintable() else ""
