"""/admin/users/{uid}: one user, and the operations on the account."""

from collections.abc import Sequence
from typing import ClassVar
from urllib.parse import quote

from msgspec import Struct

from valetkey.authorization.actions.account.connected_apps import ConnectedApp, connected_apps
from valetkey.authorization.actions.admin.permissions import (
    ActorPermissions,
    Permission,
    require,
)
from valetkey.authorization.actions.admin.search import is_gone, user_details
from valetkey.authorization.actions.attributes import shown_attributes
from valetkey.authorization.authentication.browsers import browser_of
from valetkey.authorization.layout.contexts import SessionLine, When
from valetkey.authorization.model.user import Attribute, Role, Uid, User, uid_of
from valetkey.authorization.operations.operation import ObjectLink, Services
from valetkey.authorization.operations.roles import NO_ROLE
from valetkey.authorization.operations.user_records import PasswordLinkIssued, UserState
from valetkey.authorization.operations.users import DELETE_USER
from valetkey.authorization.site.admin.administrator import (
    AdminRequest,
    administrator,
    page_not_found,
)
from valetkey.authorization.site.admin.api_roles import (
    MOST_SHOWN,
    NO_ROLES,
    RolesPart,
    declared_roles,
    roles_part,
)
from valetkey.authorization.site.admin.confirm import (
    Buttons,
    Confirmed,
    Impact,
    Offer,
    Subject,
    confirmation,
)
from valetkey.authorization.site.admin.events.events import EVENTS
from valetkey.authorization.site.admin.events.lines import EventRow, Names, names_in, rows_of
from valetkey.authorization.site.admin.groups.groups import Link, group_link
from valetkey.authorization.site.admin.users.forms import password_link_page
from valetkey.authorization.site.admin.users.users import (
    USERS,
    UserLine,
    line_of,
    user_address,
)
from valetkey.authorization.site.page import Outcome, Page, SeeOther, Show
from valetkey.authorization.storage.apis import ApiWithRoles, AssignedRole
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.sections.portal import Registrants
from valetkey.kernel.moment import Instant, minutes
from valetkey.kernel.replace import replace
from valetkey.kernel.words import translatable
from valetkey.web.body import Form

USER = "/admin/users/{uid}"
ACT = "/admin/users/{uid}/{act}"


class FactorLine(Struct, frozen=True):
    """A sign-in method of the user."""

    kind: str
    name: str
    count: int
    since: When
    last_used: When | None


class UserAppLine(Struct, frozen=True):
    """An app connected with the account."""

    name: str
    since: When
    last_used: When | None
    #: The confirmation before its access is revoked; "" if the role may not.
    end_url: str


class UserPage(Struct, frozen=True):
    """The data of one user, without password or other credentials."""

    template: ClassVar[str] = "admin/users/user.html"

    person: UserLine
    #: Was let register apps; None where no permission is needed.
    develops: bool | None
    factors: tuple[FactorLine, ...]
    sessions: tuple[SessionLine, ...]
    apps: tuple[UserAppLine, ...]
    events: tuple[EventRow, ...]
    #: The permissions of the viewer.
    ways: tuple[Offer, ...]
    #: Label and value of each declared attribute of the user.
    attributes: tuple[tuple[str, str], ...] = ()
    #: The groups of which the user is a direct member.
    groups: tuple[Link, ...] = ()
    #: The operation that the viewer has just run.
    done: str = ""
    #: The page of all events; "" if there is none.
    events_url: str = ""
    #: The page that edits attributes; "" if none is declared, or if the role may not.
    attributes_url: str = ""
    #: The form that edits the profile; "" if the role may not.
    edit_url: str = ""
    #: Slug, title and address of the links that features add.
    links: tuple[tuple[str, str, str], ...] = ()
    #: The directory that disabled the user; "" for none.
    disabled_by: str = ""
    #: Whether the user must add a second factor.
    factor_required: bool = False
    api_roles: RolesPart = NO_ROLES


_NEWS = minutes(5)
_BUTTONS = Buttons.below("/users/{uid}")
_MESSAGES = {
    "new": translatable("The account is created."),
    "edit": translatable("The profile is saved."),
    "attributes": translatable("The attributes are saved."),
    "api-role": translatable("The role is assigned."),
    "api-role-removed": translatable("The role is removed."),
}


class _Extras(Struct, frozen=True):
    declared: Sequence[Attribute]
    groups: Sequence[str]
    #: The directory that disabled the user.
    directory: str
    roles: Sequence[AssignedRole]
    apis: Sequence[ApiWithRoles]
    names: Names


class UserPages(Struct, frozen=True):
    """Show one user, and run operations on the account."""

    services: Services
    links: Sequence[ObjectLink] = ()

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """Return one user, and the confirmation before an operation."""
        return (
            Page(USER, administrator(), self.show),
            confirmation(
                ACT, _BUTTONS, self.services, self._subject, self._finish, shows_conflicts=False
            ),
        )

    async def show(self, request: AdminRequest) -> Outcome:
        """Show the user. "Done" is shown only if the operation's event was written."""
        uid, actor, now = _uid(request), request.actor, request.now
        said = request.query.get("done") or ""
        done = _BUTTONS.by_slug.get(said)
        idle = self.services.settings.sessions.idle

        def read_state(tx: Transaction) -> tuple[UserState, _Extras, str]:
            details = user_details(tx, actor, uid, idle, now)
            by = details.user.disabled_by
            name = next(filter(None, (named(tx, by) for named in tx.hooks.directory_named)), "")
            extras = _Extras(
                tx.attributes(),
                tx.groups.direct_names(uid),
                name,
                tx.api_roles.of_user(uid, MOST_SHOWN),
                declared_roles(tx),
                names_in(tx, details.events),
            )
            developer = tx.members.is_developer(uid)
            needed = self.services.settings.portal.who is Registrants.INVITED or developer
            state = UserState(details, developer if needed else None, self._sends_mail)
            if done is None or done.operation.event is None:
                return state, extras, ""
            event, since = done.operation.event.name, Instant(now - _NEWS)
            was_done = tx.user_directory.has_acted(actor.done_by, event, uid, since)
            return state, extras, done.button.done if was_done else ""

        may_edit = request.permissions.allow(Permission.USERS)

        state, extras, message = await self.services.store.scan(read_state)
        may_assign = request.permissions.allow(Permission.USERS, state.user)
        place = user_address(uid)
        page = replace(
            _page(state, request.permissions, now, message),
            events=rows_of(state.details.events, extras.names, now, self.services.kinds),
            attributes=shown_attributes(state.user, extras.declared),
            groups=tuple(map(group_link, extras.groups)),
            disabled_by=extras.directory,
            edit_url=f"{place}/edit" if may_assign else "",
            attributes_url=f"{place}/attributes" if extras.declared and may_edit else "",
            api_roles=roles_part(
                extras.roles,
                extras.apis,
                "",
                f"{place}/api-roles" if may_assign else "",
                self.links,
            ),
            links=tuple(link.to(uid) for link in self.links if link.path == "/users/{uid}"),
        )
        return Show(replace(page, done=_MESSAGES.get(said, page.done)))

    async def _subject(self, request: AdminRequest, confirmed: Confirmed, form: Form) -> Subject:
        uid, actor, now = _uid(request), request.actor, request.now

        def read_state(tx: Transaction) -> Subject:
            user = tx.users.find(uid)
            if user is None or is_gone(user):
                raise page_not_found()
            require(tx, actor, confirmed.operation.permission, user)
            apps = connected_apps(tx, uid, now)
            facts = [f"uid {uid}", user.username, user.email]
            if confirmed.button.carries is not None:
                wanted = form.get(confirmed.button.carries[0]) or ""
                app = next((each for each in apps if each.client.id == wanted), None)
                if app is None:
                    raise page_not_found()
                facts.append(app.name)
            role = form.get("role") or ""
            chosen = role if role in set(Role) else (user.role.value if user.role else NO_ROLE)
            return Subject(
                user_address(uid),
                user.name or user.username,
                tuple(facts),
                values={
                    "role": chosen,
                    "password_link": form.get("password_link") or "",
                    "email": form.get("email") or user.email,
                    "groups": form.get("groups") or " ".join(tx.groups.direct_names(uid)),
                },
                ends=Impact(
                    sessions=len(
                        tx.sessions.active_of(
                            uid, Instant(now - self.services.settings.sessions.idle), now
                        )
                    ),
                    apps=len(apps),
                    orphans=len(self.services.removal.apps_without_other_owner(tx, user)),
                ),
            )

        return await self.services.store.scan(read_state)

    async def _finish(self, request: AdminRequest, confirmed: Confirmed, result: object) -> Outcome:
        uid = _uid(request)
        if isinstance(result, PasswordLinkIssued) and result.password_link is not None:
            user = await self.services.store.read(lambda tx: tx.users.find(uid))
            name = "" if user is None else user.name or user.username
            return Show(password_link_page(user_address(uid), name, result.password_link))
        if confirmed.operation is DELETE_USER:
            return SeeOther(f"{USERS}?deleted={uid}")
        return SeeOther(f"{user_address(uid)}?done={confirmed.button.slug}")

    @property
    def _sends_mail(self) -> bool:
        return self.services.outbox.is_on


def _page(state: UserState, powers: ActorPermissions, now: Instant, done: str) -> UserPage:
    details, user = state.details, state.user
    return UserPage(
        person=line_of(user, now),
        develops=state.developer,
        factors=tuple(
            FactorLine(
                each.kind,
                each.name,
                each.count,
                When(each.since, now),
                None if each.last_used_at is None else When(each.last_used_at, now),
            )
            for each in details.factors
        ),
        sessions=tuple(
            SessionLine(
                each.id,
                *browser_of(each.user_agent),
                When(each.created_at, now),
                When(each.last_seen_at, now),
                signed_in_from=each.signed_in_from,
                last_seen_from=each.last_seen_from,
            )
            for each in details.sessions
        ),
        apps=tuple(_app_line(app, user, powers, now) for app in details.apps),
        events=(),
        events_url=f"{EVENTS}?person=uid:{user.uid}",
        ways=_BUTTONS.offers(state, powers, user_address(user.uid), user),
        done=done,
        factor_required=user.factor_required_at is not None,
    )


def _app_line(app: ConnectedApp, user: User, powers: ActorPermissions, now: Instant) -> UserAppLine:
    ends = _BUTTONS.may("end-app", powers, user)
    url = f"{user_address(user.uid)}/end-app?app={quote(app.client.id, safe='')}"
    return UserAppLine(
        app.name,
        When(app.since, now),
        None if app.last_used_at is None else When(app.last_used_at, now),
        url if ends else "",
    )


def _uid(request: AdminRequest) -> Uid:
    uid = uid_of(request.arguments["uid"])
    if uid is None:
        raise page_not_found()
    return uid
