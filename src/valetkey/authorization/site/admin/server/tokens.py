"""/admin/tokens: list, create, show and revoke tokens of the admin API."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from valetkey.authorization.actions.admin import tokens
from valetkey.authorization.actions.admin.permissions import (
    Permission,
    permissions_of,
    require,
)
from valetkey.authorization.layout.addresses import ADDRESSES
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.model.user import ApiToken
from valetkey.authorization.operations.operation import (
    PREFIX,
    Services,
    cursor,
    place_in,
)
from valetkey.authorization.operations.tokens import MAKE_TOKEN, NewToken, token_shown
from valetkey.authorization.site.admin.administrator import (
    SERVER,
    AdminRequest,
    actor_of,
    administrator,
    page_not_found,
)
from valetkey.authorization.site.admin.confirm import (
    Buttons,
    Confirmed,
    Offer,
    Subject,
    confirmation,
    done_at,
)
from valetkey.authorization.site.admin.input_fields import Words
from valetkey.authorization.site.admin.input_form import FormSubject, InputForm
from valetkey.authorization.site.admin.object_page import (
    Fact,
    ObjectPage,
    RecentEvents,
    facts,
    read_activity,
)
from valetkey.authorization.site.admin.objects import (
    ACTIVE,
    ListDeclaration,
    ListWords,
    Part,
    Row,
    badge,
    code,
    exact,
    since,
    text,
    unsorted,
    words,
)
from valetkey.authorization.site.admin.users.users import user_address
from valetkey.authorization.site.page import Outcome, Page, Show
from valetkey.authorization.site.shown_once import (
    COPY_THE_TOKEN,
    NEW_TOKEN,
    NewSecretPage,
    ShownValue,
)
from valetkey.authorization.storage.search import END as CURSOR_END
from valetkey.authorization.storage.search import TimeCursor
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant, days
from valetkey.kernel.text import translatable
from valetkey.web.body import Form

PERMISSION_WORDS = {
    Permission.READ: translatable("View users, apps, events and settings"),
    Permission.RESET: translatable("Help users recover their accounts"),
    Permission.USERS: translatable("Manage, disable and delete users"),
    Permission.CLIENTS: translatable("Manage, disable and verify apps"),
    Permission.KEYS: translatable("Rotate keys and create API tokens"),
    Permission.SETTINGS: translatable("Change name, logo and color"),
    Permission.ROLES: translatable("Assign and remove roles"),
}
"""The description of each permission of a token."""

TOKENS = ADDRESSES["admin_tokens"]
NEW = "/admin/tokens/new"
_TOKEN = "/admin/tokens/{token_id}"
_BUTTONS = Buttons.below("/tokens/{token_id}")
_TITLE = translatable("API tokens")
_NEVER_USED = translatable("It was never used.")
WORDS: Words = {
    "name": (
        translatable("Name"),
        translatable("What the token is used for, in at most 80 characters."),
    ),
    "lifetime": (translatable("Expires after"), translatable("At most 365 days.")),
    "permissions": (translatable("Permissions"), ""),
}
_LIFETIME = days(90)

MOST_COUNTED = 1_000
"""Tokens that are counted for the total."""

LIST = ListDeclaration(
    TOKENS,
    ListWords(
        caption=_TITLE,
        new=NEW_TOKEN,
        empty_title=translatable("No tokens yet"),
        empty_text=translatable(
            "Create a separate token for each program, with only the permissions it needs."
        ),
        lead=translatable(
            "Programs use tokens to call the admin API. A token never exceeds the current role of "
            "the user who created it."
        ),
    ),
    unsorted(
        translatable("Token"),
        translatable("State"),
        translatable("Created by"),
        translatable("Last used"),
        translatable("Created"),
    ),
    most_counted=MOST_COUNTED,
    new_url=NEW,
    permission=Permission.KEYS,
)
"""The list of tokens, newest first."""


def token_made_page(name: str, token: str, until: str, issuer: str) -> NewSecretPage:
    """Return the page with a new token, which works until this moment."""
    return NewSecretPage(
        title=NEW_TOKEN,
        back=TOKENS,
        above=_TITLE,
        copied=(ShownValue("token", token, COPY_THE_TOKEN),),
        before=(_WORKS_UNTIL,),
        values={"name": name, "moment": until},
        example=f'curl -H "Authorization: Bearer $TOKEN" {issuer}{PREFIX}/token',
    )


_WORKS_UNTIL = translatable("<bdi>%(name)s</bdi> works until %(moment)s. It is shown only now.")

SHOWN = 50
"""Maximum number of tokens on a page."""


class ApiTokenPages(Struct, frozen=True):
    """List, create, show and end admin API tokens."""

    services: Services

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """Return the list, the form for a new token, a token, and the confirmation of its end."""
        form = InputForm(
            NEW,
            administrator(Permission.KEYS, recent=True),
            actor_of,
            self.services,
            MAKE_TOKEN,
            NewToken,
            WORDS,
            NEW_TOKEN,
            self._new,
            self._made,
            submit=translatable("Create token"),
            durations=("lifetime",),
        )
        return (
            Page(
                TOKENS,
                administrator(),
                self.show,
                title=_TITLE,
                nav=SERVER,
                docs="how-to/operate/automate-administration.html",
            ),
            form.page(),
            Page(_TOKEN, administrator(), self.show_one),
            confirmation(
                f"{_TOKEN}/{{act}}", _BUTTONS, self.services, self._subject, done_at(TOKENS)
            ),
        )

    async def show(self, request: AdminRequest) -> Outcome:
        """Show a page of the tokens."""
        query, actor = LIST.read(request), request.actor
        before = place_in(query.after or None)

        def find_tokens(tx: Transaction) -> tuple[Sequence[ApiToken], int, Mapping[int, str]]:
            api_tokens = tokens.page(tx, actor, before, SHOWN + 1)
            count = len(tokens.page(tx, actor, CURSOR_END, MOST_COUNTED + 1))
            users = {token.uid: tx.users.find(token.uid) for token in api_tokens}
            return api_tokens, count, {uid: user.username for uid, user in users.items() if user}

        api_tokens, count, names = await self.services.store.scan(find_tokens)
        last = api_tokens[SHOWN - 1] if len(api_tokens) > SHOWN else None
        page = LIST.page(
            request,
            query,
            [
                token_row(token, names.get(token.uid, ""), request.now)
                for token in api_tokens[:SHOWN]
            ],
            cursor(TimeCursor(last.created_at, last.id)) if last else "",
            count,
            done=_BUTTONS.done(query.query.get("done")),
            links=(("api", translatable("Admin API"), f"{PREFIX}/"),),
        )
        return Show(page)

    async def show_one(self, request: AdminRequest) -> Outcome:
        """Show a token."""
        token, maker = await self._found(request)
        shown, address = token_shown(token, request.now), f"{TOKENS}/{token.id}"
        actions = _BUTTONS.offers(shown, request.permissions, address)
        activity = await read_activity(self.services, request, f"token:{token.id}")
        return Show(token_page(token, maker, request.now, actions, activity))

    async def _new(self, request: AdminRequest) -> FormSubject:
        may = permissions_of(request.user.role).permissions
        offered = tuple((it.value, text) for it, text in PERMISSION_WORDS.items() if it in may)
        values = {"lifetime": str(_LIFETIME)}
        return FormSubject(TOKENS, _TITLE, values=values, choices={"permissions": offered})

    async def _made(self, request: AdminRequest, made: NewToken) -> Outcome:
        until = When(Instant(made.record.expires_at), request.now).exact
        issuer = self.services.settings.authorization.url
        return Show(token_made_page(made.record.name, made.token, until, issuer))

    async def _subject(self, request: AdminRequest, _confirmed: Confirmed, _form: Form) -> Subject:
        token, _ = await self._found(request)
        if not token.is_live(request.now):
            raise page_not_found()
        return Subject(
            f"{TOKENS}/{token.id}",
            token.name,
            (token.id, *sorted(token.permissions)),
            consequences=(_NEVER_USED,) if token.last_used_at is None else (),
        )

    async def _found(self, request: AdminRequest) -> tuple[ApiToken, str]:
        token_id, actor = request.arguments["token_id"], request.actor

        def find(tx: Transaction) -> tuple[ApiToken | None, str]:
            require(tx, actor, Permission.READ)
            token = tx.api_tokens.find(token_id)
            maker = None if token is None else tx.users.find(token.uid)
            return token, maker.username if maker else ""

        ascii_only = token_id.isascii() and token_id.isprintable()
        token, maker = await self.services.store.read(find) if ascii_only else (None, "")
        if token is None:
            raise page_not_found()
        return token, maker


def _state(token: ApiToken, now: Instant) -> Part:
    if token.is_live(now):
        return ACTIVE
    return badge(translatable("Revoked") if token.ended_at else translatable("Expired"))


def _used(token: ApiToken, now: Instant) -> Part:
    if token.last_used_at is None:
        return words(translatable("Never"))
    return since(When(token.last_used_at, now))


def token_row(token: ApiToken, maker: str, now: Instant) -> Row:
    """Return a token in the list; `maker` is the username of its creator."""
    return Row(
        token.id,
        token.name,
        f"{TOKENS}/{token.id}",
        (
            (_state(token, now),),
            (text(maker or str(token.uid), user_address(token.uid)),),
            (_used(token, now),),
            (since(When(token.created_at, now)),),
        ),
        tuple(code(permission) for permission in sorted(token.permissions)),
    )


def token_page(
    token: ApiToken,
    maker: str,
    now: Instant,
    actions: tuple[Offer, ...] = (),
    activity: RecentEvents | None = None,
) -> ObjectPage:
    """Return the page about a token."""
    may = tuple(
        words(it, permission.value)
        for permission, it in PERMISSION_WORDS.items()
        if permission in token.permissions
    )
    ended = None if token.ended_at is None else exact(When(token.ended_at, now))
    return ObjectPage(
        TOKENS,
        _TITLE,
        token.name,
        (_state(token, now),),
        facts=(
            Fact(WORDS["permissions"][0], may),
            *facts(
                (
                    (
                        translatable("Created by"),
                        text(maker or str(token.uid), user_address(token.uid)),
                    ),
                    (translatable("Created"), since(When(token.created_at, now))),
                    (translatable("Last used"), _used(token, now)),
                    (translatable("Expires"), exact(When(token.expires_at, now))),
                    (translatable("Revoked"), ended),
                    (translatable("Token ID"), code(token.id)),
                )
            ),
        ),
        actions=actions,
        activity=activity,
    )
