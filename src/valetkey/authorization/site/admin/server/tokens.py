"""/admin/tokens: list, create and end tokens of the admin API."""

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.actions.admin import tokens
from valetkey.authorization.actions.admin.permissions import Permission, permissions_of
from valetkey.authorization.layout.addresses import ADDRESSES
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.model.user import ApiToken, User
from valetkey.authorization.operations.operation import (
    PREFIX,
    InvalidInput,
    Services,
    call_of,
    cursor,
    place_in,
    value_of,
)
from valetkey.authorization.operations.tokens import MAKE_TOKEN, NewToken, TokenWanted
from valetkey.authorization.site.admin.administrator import (
    SERVER,
    AdminRequest,
    administrator,
    page_not_found,
)
from valetkey.authorization.site.admin.confirm import (
    Buttons,
    Confirmed,
    Subject,
    confirmation,
    done_at,
)
from valetkey.authorization.site.admin.users.users import user_address
from valetkey.authorization.site.page import (
    ONE_PAGE,
    Act,
    Outcome,
    Page,
    Paging,
    Show,
    at_most,
    pages_beside,
)
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
from valetkey.web.body import EMPTY, Form

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

_FAULTS = {
    "name": translatable("Enter a name of at most 80 visible characters."),
    "lifetime": translatable("Enter a number of days from 1 to 365."),
    "permissions": translatable("Choose at least one."),
}
_TOO_MANY = translatable("You have reached the maximum number of tokens. Revoke one first.")


TOKENS = ADDRESSES["admin_tokens"]
NEW = "/admin/tokens/new"
_ACT = "/admin/tokens/{token_id}/{act}"
_BUTTONS = Buttons.below("/tokens/{token_id}")
_TITLE = translatable("API tokens")
_NEVER_USED = translatable("It was never used.")


class TokenLine(Struct, frozen=True):
    """One token; `end_url` is "" if it has ended, or if the role may not end it."""

    id: str
    name: str
    maker: str
    maker_url: str
    permissions: tuple[str, ...]
    since: When
    until: When
    last_used: When | None
    works: bool
    end_url: str


class TokensPage(Struct, frozen=True):
    """The list of tokens, newest first."""

    template: ClassVar[str] = "admin/server/tokens.html"

    listed: tuple[TokenLine, ...]
    new_url: str
    docs_url: str
    paging: Paging = ONE_PAGE
    #: What was just done; "" for nothing.
    done: str = ""


class NewTokenPage(Struct, frozen=True):
    """The form for a new token; `choices` are the permissions that its creator may assign."""

    template: ClassVar[str] = "admin/server/new_token.html"

    action: str
    back: str
    choices: tuple[tuple[str, str], ...]
    name: str = ""
    chosen: tuple[str, ...] = ()
    days: str = "90"
    faults: tuple[tuple[str, str], ...] = ()


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

MOST_COUNTED = 1_000
"""Tokens that are counted for the total."""

_DAYS = re.compile(r"[1-9][0-9]{0,2}", re.ASCII)
_BAD_REQUEST = 400


class ApiTokens(Struct, frozen=True):
    """List, create and end admin API tokens."""

    services: Services

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """Return the list, the form for a new token, and the confirmation before one ends."""
        maker = administrator(Permission.KEYS, recent=True)
        make = Act(self.make, multiple=("permission",))
        return (
            Page(
                TOKENS,
                administrator(),
                self.show,
                title=_TITLE,
                nav=SERVER,
                docs="how-to/operate/automate-administration.html",
            ),
            Page(NEW, maker, self.show_form, make, title=NEW_TOKEN),
            confirmation(_ACT, _BUTTONS, self.services, self._subject, done_at(TOKENS)),
        )

    async def show(self, request: AdminRequest) -> Outcome:
        """Show a page of the tokens."""
        form, actor = request.query, request.actor
        before = place_in(form.get("after"))

        def find_tokens(tx: Transaction) -> tuple[Sequence[ApiToken], int, Mapping[int, str]]:
            found = tokens.page(tx, actor, before, SHOWN + 1)
            count = len(tokens.page(tx, actor, CURSOR_END, MOST_COUNTED + 1))
            users = {each.uid: tx.users.find(each.uid) for each in found}
            return found, count, {uid: user.username for uid, user in users.items() if user}

        found, count, names = await self.services.store.scan(find_tokens)
        may = request.permissions.allow(Permission.KEYS)
        last = found[SHOWN - 1] if len(found) > SHOWN else None
        page = TokensPage(
            listed=tuple(_line(each, names, request.now, may=may) for each in found[:SHOWN]),
            new_url=NEW if may else "",
            docs_url=f"{PREFIX}/",
            paging=pages_beside(
                TOKENS,
                {},
                form,
                cursor(TimeCursor(last.created_at, last.id)) if last else "",
                total=at_most(count, MOST_COUNTED),
            ),
            done=_BUTTONS.done(form.get("done")),
        )
        return Show(page)

    async def show_form(self, request: AdminRequest) -> Outcome:
        """Show the form for a new token."""
        return self._form(request)

    async def make(self, request: AdminRequest) -> Outcome:
        """Create the token and show it once."""
        form = request.form
        said = form.get("days") or ""
        chosen, known = form.all("permission"), frozenset(Permission)
        body = TokenWanted(
            (form.get("name") or "").strip(),
            [Permission(each) for each in chosen] if known.issuperset(chosen) else [],
            days(int(said) if _DAYS.fullmatch(said) else 0),
        )
        call = call_of(self.services, MAKE_TOKEN, request.actor, request.now, body=body)
        try:
            made = await value_of(call, NewToken)
        except InvalidInput as invalid:
            faults = tuple(
                (each.field, _TOO_MANY if each == tokens.TOO_MANY else _FAULTS[each.field])
                for each in invalid.faults
                if each.field in _FAULTS
            )
            return self._form(request, form, faults)
        until = When(Instant(made.record.expires_at), request.now).exact
        issuer = self.services.settings.authorization.url
        return Show(token_made_page(made.record.name, made.token, until, issuer))

    async def _subject(self, request: AdminRequest, _confirmed: Confirmed, _form: Form) -> Subject:
        token_id = _named(request)
        token = await self.services.store.read(lambda tx: tx.api_tokens.find(token_id))
        if token is None or not token.is_live(request.now):
            raise page_not_found()
        used = token.last_used_at
        return Subject(
            TOKENS,
            token.name,
            (token.id, *sorted(token.permissions)),
            above=_TITLE,
            consequences=(_NEVER_USED,) if used is None else (),
        )

    def _form(
        self,
        request: AdminRequest,
        form: Form = EMPTY,
        faults: tuple[tuple[str, str], ...] = (),
    ) -> Outcome:
        page = NewTokenPage(
            action=NEW,
            back=TOKENS,
            choices=_choices(request.user),
            name=form.get("name") or "",
            chosen=form.all("permission"),
            days="90" if form is EMPTY else form.get("days") or "",
            faults=faults,
        )
        status = _BAD_REQUEST if faults else 200
        return Show(page, status)


def _choices(user: User) -> tuple[tuple[str, str], ...]:
    may = permissions_of(user.role).permissions
    return tuple((each.value, words) for each, words in PERMISSION_WORDS.items() if each in may)


def _named(request: AdminRequest) -> str:
    name = request.arguments["token_id"]
    if not name.isascii() or not name.isprintable():
        raise page_not_found()
    return name


def _line(token: ApiToken, names: Mapping[int, str], now: Instant, *, may: bool) -> TokenLine:
    works = token.is_live(now)
    return TokenLine(
        id=token.id,
        name=token.name,
        maker=names.get(token.uid, str(token.uid)),
        maker_url=user_address(token.uid),
        permissions=tuple(sorted(token.permissions)),
        since=When(token.created_at, now),
        until=When(token.expires_at, now),
        last_used=None if token.last_used_at is None else When(token.last_used_at, now),
        works=works,
        end_url=f"{TOKENS}/{token.id}/end" if works and may else "",
    )
