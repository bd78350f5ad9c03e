"""/admin/tokens: list, create and end tokens of the admin API."""

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.actions.admin import api_tokens
from valetkey.authorization.actions.admin.api_tokens import FreshToken, WantedToken
from valetkey.authorization.actions.admin.permissions import Permission, powers_of
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.model.account.user import ApiToken, User
from valetkey.authorization.operations.operation import PREFIX, Services, cursor, place_in
from valetkey.authorization.site.admin.administrator import (
    SERVER,
    AdminRequest,
    administrator,
    page_not_found,
    with_query,
)
from valetkey.authorization.site.admin.confirm import MISMATCH, is_unconfirmed
from valetkey.authorization.site.admin.users.users import user_address
from valetkey.authorization.site.page import Act, Outcome, Page, SeeOther, Show
from valetkey.authorization.storage.administration.client_search import Cursor
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant, days
from valetkey.kernel.secret import Prefix, fresh_id, fresh_secret
from valetkey.kernel.words import translatable
from valetkey.web.form import EMPTY, Form

PERMISSION_WORDS = {
    Permission.READ: translatable("View users, apps, events and settings"),
    Permission.RESET: translatable("Help users recover their accounts"),
    Permission.PEOPLE: translatable("Manage, disable and delete users"),
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
_TOO_MANY = translatable("No more tokens are possible at a time. Revoke one first.")


TOKENS = "/admin/tokens"
NEW = "/admin/tokens/new"
END = "/admin/tokens/{token_id}/end"


class TokenLine(Struct, frozen=True):
    """One token; `end_url` is "" if it has ended, or if the role may not end it."""

    id: str
    name: str
    maker: str
    maker_url: str
    permissions: tuple[str, ...]
    since: When
    until: str
    last_used: When | None
    works: bool
    end_url: str


class TokensPage(Struct, frozen=True):
    """The list of tokens, newest first."""

    template: ClassVar[str] = "admin/server/tokens.html"

    listed: tuple[TokenLine, ...]
    new_url: str
    docs_url: str
    more: str = ""
    first: str = ""
    ended: bool = False


class NewTokenPage(Struct, frozen=True):
    """The form for a new token; `choices` are the permissions that its creator may assign."""

    template: ClassVar[str] = "admin/server/new_token.html"

    action: str
    back: str
    csrf: str
    choices: tuple[tuple[str, str], ...]
    name: str = ""
    chosen: tuple[str, ...] = ()
    days: str = "90"
    faults: tuple[tuple[str, str], ...] = ()


class TokenMadePage(Struct, frozen=True):
    """A new token, shown once."""

    template: ClassVar[str] = "admin/server/token_made.html"
    scripts: ClassVar[tuple[str, ...]] = ("copy.js",)

    back: str
    name: str
    token: str
    until: str
    example: str


class EndTokenPage(Struct, frozen=True):
    """The confirmation before a token is revoked."""

    template: ClassVar[str] = "admin/server/end_token.html"

    action: str
    back: str
    csrf: str
    name: str
    last_used: When | None
    #: The fault of the name that was typed.
    fault: str = ""


SHOWN = 50
"""Maximum number of tokens on a page."""

_DAYS = re.compile(r"[1-9][0-9]{0,2}", re.ASCII)
_BAD_REQUEST = 400


class ApiTokens(Struct, frozen=True):
    """List, create and end admin API tokens."""

    services: Services

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """Return the list, the form for a new token, and the confirmation before one ends."""
        maker = administrator(Permission.KEYS, recent=True)
        make, keeper = Act(self.make, multiple=("permission",)), administrator(Permission.KEYS)
        return (
            Page(TOKENS, administrator(), self.show, title=translatable("API tokens"), nav=SERVER),
            Page(NEW, maker, self.ask, make, title=translatable("New token")),
            Page(END, keeper, self.ask_end, Act(self.end), title=translatable("Revoke token")),
        )

    async def show(self, request: AdminRequest) -> Outcome:
        """Show a page of the list."""
        form, actor = request.query, request.actor
        before = place_in(form.get("after"))

        def find_tokens(tx: Transaction) -> tuple[Sequence[ApiToken], Mapping[int, str]]:
            found = api_tokens.page(tx, actor, before, SHOWN + 1)
            users = {each.uid: tx.users.find(each.uid) for each in found}
            return found, {uid: user.username for uid, user in users.items() if user}

        found, names = await self.services.store.scan(find_tokens)
        may = request.powers.allow(Permission.KEYS)
        last = found[SHOWN - 1] if len(found) > SHOWN else None
        page = TokensPage(
            listed=tuple(_line(each, names, request.now, may=may) for each in found[:SHOWN]),
            new_url=NEW if may else "",
            docs_url=f"{PREFIX}/",
            more=(
                with_query(TOKENS, {"after": cursor(Cursor(last.created_at, last.id))})
                if last
                else ""
            ),
            first=TOKENS if "after" in form else "",
            ended="ended" in form,
        )
        return Show(page)

    async def ask(self, request: AdminRequest) -> Outcome:
        """Show the form for a new token."""
        return self._form(request)

    async def make(self, request: AdminRequest) -> Outcome:
        """Create the token and show it once."""
        form = request.form
        said = form.get("days") or ""
        lifetime = days(int(said) if _DAYS.fullmatch(said) else 0)
        name, actor = (form.get("name") or "").strip(), request.actor
        wanted = WantedToken(name, form.all("permission"), lifetime, actor.uid)
        random, now = self.services.random, request.now
        fresh = FreshToken(fresh_id("at", random), fresh_secret(Prefix.API_TOKEN, random))
        key = self.services.fingerprints
        made = await self.services.store.write(
            lambda tx: api_tokens.issue(tx, actor, key, wanted, fresh, now),
            done_by=actor.done_by,
        )
        if isinstance(made, tuple):
            faults = tuple(
                (each.field, _TOO_MANY if each == api_tokens.TOO_MANY else _FAULTS[each.field])
                for each in made
                if each.field in _FAULTS
            )
            return self._form(request, form, faults)
        issuer = self.services.settings.authorization.url
        page = TokenMadePage(
            back=TOKENS,
            name=made.name,
            token=fresh.secret.reveal(),
            until=When(made.expires_at, now).exact,
            example=f'curl -H "Authorization: Bearer $TOKEN" {issuer}{PREFIX}/token',
        )
        return Show(page)

    async def ask_end(self, request: AdminRequest) -> Outcome:
        """Show the confirmation before a token is revoked."""
        return await self._question(request)

    async def _question(self, request: AdminRequest, fault: str = "") -> Outcome:
        token_id = _named(request)
        token = await self.services.store.read(lambda tx: tx.api_tokens.find(token_id))
        if token is None or not token.is_live(request.now):
            raise page_not_found()
        used = token.last_used_at
        page = EndTokenPage(
            action=request.request.path,
            back=TOKENS,
            csrf=request.csrf,
            name=token.name,
            last_used=None if used is None else When(used, request.now),
            fault=fault,
        )
        return Show(page, _BAD_REQUEST if fault else 200)

    async def end(self, request: AdminRequest) -> Outcome:
        """Revoke a token. A repeated submit shows the result of the first one."""
        if is_unconfirmed(request.form):
            return await self._question(request, MISMATCH)
        actor, token_id = request.actor, _named(request)
        await self.services.store.write(
            lambda tx: api_tokens.end(tx, actor, token_id, request.now), done_by=actor.done_by
        )
        return SeeOther(f"{TOKENS}?ended=1")

    def _form(
        self,
        request: AdminRequest,
        form: Form = EMPTY,
        faults: tuple[tuple[str, str], ...] = (),
    ) -> Outcome:
        page = NewTokenPage(
            action=NEW,
            back=TOKENS,
            csrf=request.csrf,
            choices=_choices(request.user),
            name=form.get("name") or "",
            chosen=form.all("permission"),
            days="90" if form is EMPTY else form.get("days") or "",
            faults=faults,
        )
        status = _BAD_REQUEST if faults else 200
        return Show(page, status)


def _choices(user: User) -> tuple[tuple[str, str], ...]:
    may = powers_of(user.role).permissions
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
        until=When(token.expires_at, now).exact,
        last_used=None if token.last_used_at is None else When(token.last_used_at, now),
        works=works,
        end_url=f"{TOKENS}/{token.id}/end" if works and may else "",
    )
