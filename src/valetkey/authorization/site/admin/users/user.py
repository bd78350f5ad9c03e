"""/admin/users/{uid}: one user, and the operations on the account."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from valetkey.authorization.actions.account.connected_apps import ConnectedApp, connected_apps
from valetkey.authorization.actions.admin.permissions import (
    Permission,
    require,
)
from valetkey.authorization.actions.admin.search import Factor, is_gone, user_details
from valetkey.authorization.actions.attributes import shown_attributes
from valetkey.authorization.authentication.browsers import browser_of
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.model.user import Attribute, Role, Session, Uid, User, uid_of
from valetkey.authorization.operations.operation import ObjectLink, Services
from valetkey.authorization.operations.roles import NO_ROLE
from valetkey.authorization.operations.user_records import PasswordLinkIssued, UserState
from valetkey.authorization.operations.users import DELETE_USER
from valetkey.authorization.site.admin.administrator import (
    AdminRequest,
    administrator,
    page_not_found,
    with_query,
)
from valetkey.authorization.site.admin.api_roles import (
    MOST_SHOWN,
    declared_roles,
    roles_part,
)
from valetkey.authorization.site.admin.clients.clients import client_address
from valetkey.authorization.site.admin.confirm import (
    NOTHING_CHANGED,
    UNCHANGED,
    Buttons,
    Confirmed,
    Impact,
    Subject,
    confirmation,
)
from valetkey.authorization.site.admin.events.events import EVENTS
from valetkey.authorization.site.admin.events.lines import Names, names_in, rows_of
from valetkey.authorization.site.admin.groups.groups import group_address
from valetkey.authorization.site.admin.object_page import (
    Fact,
    ObjectPage,
    RecentEvents,
    Related,
    facts,
)
from valetkey.authorization.site.admin.objects import (
    Line,
    LineButton,
    Part,
    code,
    since,
    text,
    words,
)
from valetkey.authorization.site.admin.users.forms import password_link_page
from valetkey.authorization.site.admin.users.users import (
    USERS,
    user_address,
    user_states,
)
from valetkey.authorization.site.page import Outcome, Page, SeeOther, Show
from valetkey.authorization.storage.apis import ApiWithRoles, AssignedRole
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant, minutes
from valetkey.kernel.replace import replace
from valetkey.kernel.text import translatable
from valetkey.web.body import Form

USER = "/admin/users/{uid}"
ACT = "/admin/users/{uid}/{act}"


_NEWS = minutes(5)
_MESSAGES = {
    "new": translatable("The account is created."),
    "invited": translatable("The account is created. An email with the link is on its way."),
    "edit": translatable("The profile is saved."),
    "attributes": translatable("The attributes are saved."),
    "api-role": translatable("The role is assigned."),
    "api-role-removed": translatable("The role is removed."),
    UNCHANGED: NOTHING_CHANGED,
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
    buttons: Buttons
    """Those of the operations of the core and of features on a user."""
    links: Sequence[ObjectLink] = ()

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """Return one user, and the confirmation before an operation."""
        return (
            Page(USER, administrator(), self.show),
            confirmation(
                ACT,
                self.buttons,
                self.services,
                self._subject,
                self._finish,
            ),
        )

    async def show(self, request: AdminRequest) -> Outcome:
        """Show the user. "Done" is shown only if the operation's event was written."""
        uid, actor, now = _uid(request), request.actor, request.now
        done_action = request.query.get("done") or ""
        done = self.buttons.by_slug.get(done_action)
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
            needed = self.services.developers.needs_invitation or developer
            state = UserState(details, developer if needed else None, self._sends_mail)
            if done is None or done.operation.event is None:
                return state, extras, ""
            event, since = done.operation.event.name, Instant(now - _NEWS)
            was_done = tx.user_directory.has_acted(actor.done_by, event, uid, since)
            return state, extras, done.button.done if was_done else ""

        state, extras, message = await self.services.store.scan(read_state)
        page = self._page(state, extras, request)
        return Show(replace(page, done=_MESSAGES.get(done_action, message)))

    def _page(self, state: UserState, extras: _Extras, request: AdminRequest) -> ObjectPage:
        details, user, now = state.details, state.user, request.now
        may_edit = request.permissions.allow(Permission.USERS)
        may_assign = request.permissions.allow(Permission.USERS, user)
        address = user_address(user.uid)
        ends = self.buttons.may("end-app", request.permissions, user)
        links = [
            ("edit", translatable("Edit profile"), f"{address}/edit" if may_assign else ""),
            ("attributes", translatable("Edit attributes"), f"{address}/attributes")
            if extras.declared and may_edit
            else ("", "", ""),
            *(link.to(user.uid) for link in self.links if link.path == "/users/{uid}"),
        ]
        roles = roles_part(
            extras.roles,
            extras.apis,
            "",
            f"{address}/api-roles" if may_assign else "",
            self.links,
        )
        return ObjectPage(
            list_url=USERS,
            above=translatable("Users"),
            name=user.name or user.username,
            state=user_states(user),
            notes=tuple(_notes(user, extras.directory)),
            facts=(
                *facts(
                    (
                        (translatable("Username"), text(user.username)),
                        (translatable("Email"), text(user.email)),
                        (translatable("User ID"), code(str(user.uid))),
                        (translatable("Since"), since(When(user.created_at, now))),
                    )
                ),
                *(
                    Fact(label, (text(value),), own=True)
                    for label, value in shown_attributes(user, extras.declared)
                ),
                *facts(((translatable("Can register apps"), _yes_or_no(state.developer)),)),
            ),
            links=tuple(link for link in links if link[2]),
            actions=tuple(
                offer
                for offer in self.buttons.offers(state, request.permissions, address, user)
                if offer.slug != "groups"  # beside the list of groups
            ),
            related=(
                _groups(extras.groups, f"{address}/groups" if may_edit else ""),
                *(() if roles is None else (roles,)),
                Related(
                    "factors",
                    translatable("Sign-in methods"),
                    tuple(_factor_line(factor, now) for factor in details.factors),
                    translatable(
                        "None: the user signs in with another provider, or cannot sign in until"
                        " they set a password."
                    ),
                ),
                Related(
                    "sessions",
                    translatable("Sessions"),
                    tuple(_session_line(session, now) for session in details.sessions),
                    translatable("No active sessions."),
                ),
                Related(
                    "apps",
                    translatable("Connected apps"),
                    tuple(_app_line(app, user, now, ends=ends) for app in details.apps),
                    translatable("No connected apps."),
                ),
            ),
            activity=RecentEvents(
                rows_of(details.events, extras.names, now, self.services.kinds),
                f"{EVENTS}?person=uid:{user.uid}",
            ),
        )

    async def _subject(self, request: AdminRequest, confirmed: Confirmed, form: Form) -> Subject:
        uid, actor, now = _uid(request), request.actor, request.now

        def read_state(tx: Transaction) -> Subject:
            user = tx.users.find(uid)
            if user is None or is_gone(user):
                raise page_not_found()
            require(tx, actor, confirmed.operation.permission, user)
            apps = connected_apps(tx, uid, now)
            facts = [f"user ID {uid}", user.username, user.email]
            if confirmed.button.carries is not None:
                subject = form.get(confirmed.button.carries[0]) or ""
                app = next(
                    (connected_app for connected_app in apps if connected_app.client.id == subject),
                    None,
                )
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


def _notes(user: User, directory: str) -> Iterator[Part]:
    if directory:
        yield words(
            translatable(
                "Disabled by the directory %(name)s (SCIM). It can enable the account again."
            ),
            name=directory,
        )
    elif user.disabled_at is not None:
        yield words(
            translatable("The user cannot sign in, and apps have no access to the account.")
        )
    if user.factor_required_at is not None:
        yield words(
            translatable(
                "After signing in, the user must add a passkey or an authenticator app before"
                " anything else, because the account was secured."
            )
        )


def _yes_or_no(answer: bool | None) -> Part | None:
    if answer is None:
        return None
    return words(translatable("yes") if answer else translatable("no"))


def _groups(names: Sequence[str], change_url: str) -> Related:
    return Related(
        "groups",
        translatable("Groups"),
        tuple(Line(text(name, group_address(name))) for name in names),
        translatable("In no group."),
        add_url=change_url,
        add_title=translatable("Change groups"),
    )


_FACTORS = {
    "password": translatable("Password"),
    "passkey": translatable("Passkey"),
    "totp": translatable("Authenticator app"),
}


def _factor_line(factor: Factor, now: Instant) -> Line:
    kind = _FACTORS.get(factor.kind)
    name = (
        words(translatable("Recovery codes left: %(count)s"), count=str(factor.count))
        if kind is None
        else words(kind)
    )
    used = factor.last_used_at
    return Line(
        name,
        (text(factor.name),) if factor.name else (),
        (
            since(When(factor.since, now), translatable("Since")),
            *(() if used is None else (since(When(used, now), translatable("Last used")),)),
        ),
    )


def _session_line(session: Session, now: Instant) -> Line:
    browser, system = browser_of(session.user_agent)
    if browser and system:
        name = words(translatable("%(browser)s on %(system)s"), browser=browser, system=system)
    else:
        agent_name = browser or system
        name = text(agent_name) if agent_name else words(translatable("Unknown browser"))
    started, seen = When(session.created_at, now), When(session.last_seen_at, now)
    return Line(
        name,
        below=(
            since(started, translatable("Signed in"), session.signed_in_from),
            since(seen, translatable("Last active"), session.last_seen_from),
        ),
    )


def _app_line(app: ConnectedApp, user: User, now: Instant, *, ends: bool) -> Line:
    url = with_query(f"{user_address(user.uid)}/end-app", {"app": app.client.id})
    used = app.last_used_at
    return Line(
        text(app.name, client_address(app.client.id)),
        below=(
            since(When(app.since, now), translatable("Since")),
            words(translatable("Inactive; can reconnect without asking"))
            if used is None
            else since(When(used, now), translatable("Last used")),
        ),
        act=LineButton(
            url, translatable("Revoke access"), translatable("Revoke access for %(name)s"), app.name
        )
        if ends
        else None,
    )


def _uid(request: AdminRequest) -> Uid:
    uid = uid_of(request.arguments["uid"])
    if uid is None:
        raise page_not_found()
    return uid
