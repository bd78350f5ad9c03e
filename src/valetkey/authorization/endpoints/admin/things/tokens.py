"""/admin/tokens: tokens of the admin API, another one, the end of one."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from valetkey.authorization.deeds.admin.permissions import Permission, powers_of
from valetkey.authorization.deeds.admin.things import api_tokens
from valetkey.authorization.deeds.admin.things.api_tokens import FreshToken, WantedToken
from valetkey.authorization.endpoints.account.step_up import stepped_up
from valetkey.authorization.endpoints.account.visit import Visit
from valetkey.authorization.endpoints.admin.people.addresses import user_address
from valetkey.authorization.endpoints.admin.things.addresses import (
    NEW_TOKEN,
    TOKENS,
    with_query,
)
from valetkey.authorization.endpoints.admin.visit import (
    actor_of,
    administered,
    administered_form,
    nothing_here,
)
from valetkey.authorization.endpoints.admin_api.operation import PREFIX
from valetkey.authorization.endpoints.admin_api.paging import cursor, place_in
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.model.account.api_token import ApiToken
from valetkey.authorization.model.account.user import User
from valetkey.authorization.pages.admin.things.programs.tokens import (
    PERMISSION_WORDS,
    EndTokenPage,
    NewTokenPage,
    TokenLine,
    TokenMadePage,
    TokensPage,
)
from valetkey.authorization.site.site import Site
from valetkey.authorization.storage.administration.client_search import Place
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant, days
from valetkey.kernel.secret import Prefix, fresh_id, fresh_secret
from valetkey.web.exchange import Request, Response
from valetkey.web.form import EMPTY, Form, read_query

SHOWN = 50
"""Tokens on a page."""

_DAYS = re.compile(r"[1-9][0-9]{0,2}", re.ASCII)
_BAD_REQUEST = 400


@dataclass(frozen=True, slots=True)
class TokensEndpoint:
    """The tokens."""

    site: Site

    async def get(self, request: Request) -> Response:
        """A page of them."""
        seen = await administered(self.site, request)
        if isinstance(seen, Response):
            return seen
        form, actor = read_query(request.query), actor_of(seen)
        before = place_in(form.get("after"))

        def work(tx: Transaction) -> tuple[Sequence[ApiToken], Mapping[int, str]]:
            found = api_tokens.page(tx, actor, before, SHOWN + 1)
            users = {each.uid: tx.users.find(each.uid) for each in found}
            return found, {uid: user.username for uid, user in users.items() if user}

        found, names = await self.site.store.scan(work)
        may = powers_of(seen.signed_in.user.role).allow(Permission.KEYS)
        last = found[SHOWN - 1] if len(found) > SHOWN else None
        page = TokensPage(
            listed=tuple(_line(each, names, request.at, may=may) for each in found[:SHOWN]),
            new_url=NEW_TOKEN if may else "",
            docs_url=f"{PREFIX}/",
            more=(
                with_query(TOKENS, {"after": cursor(Place(last.created_at, last.id))})
                if last
                else ""
            ),
            first=TOKENS if "after" in form else "",
            ended="ended" in form,
        )
        return self.site.page(request, page, user=seen.signed_in.user, headers=seen.headers)

    async def ask(self, request: Request) -> Response:
        """The form for another one."""
        seen = await administered(self.site, request, Permission.KEYS)
        if isinstance(seen, Response):
            return seen
        if asked := await stepped_up(self.site, request, seen):
            return asked
        return self._form(request, seen)

    async def make(self, request: Request) -> Response:
        """Make it and show it this once."""
        found = await administered_form(
            self.site, request, Permission.KEYS, multiple=("permission",)
        )
        if isinstance(found, Response):
            return found
        seen, form = found
        if asked := await stepped_up(self.site, request, seen):
            return asked
        said = form.get("days") or ""
        lifetime = days(int(said) if _DAYS.fullmatch(said) else 0)
        name, actor = (form.get("name") or "").strip(), actor_of(seen)
        wanted = WantedToken(name, form.all("permission"), lifetime, actor.uid)
        random, now = self.site.random, request.at
        fresh = FreshToken(fresh_id("at", random), fresh_secret(Prefix.API_TOKEN, random))
        key = self.site.keyring.fingerprint_key
        made = await self.site.store.write(
            lambda tx: api_tokens.issue(tx, actor, key, wanted, fresh, now),
            done_by=actor.done_by,
        )
        if isinstance(made, tuple):
            faults = tuple((fault.field, fault.detail) for fault in made)
            return self._form(request, seen, form, faults)
        page = TokenMadePage(
            back=TOKENS,
            name=made.name,
            token=fresh.secret.reveal(),
            until=When(made.expires_at, now).exact,
            example=f'curl -H "Authorization: Bearer $TOKEN" {self.site.issuer}{PREFIX}/token',
        )
        return self.site.page(request, page, user=seen.signed_in.user, headers=seen.headers)

    async def ask_end(self, request: Request) -> Response:
        """The question before one ends."""
        seen = await administered(self.site, request, Permission.KEYS)
        if isinstance(seen, Response):
            return seen
        token_id = _named(request)
        token = await self.site.store.read(lambda tx: tx.api_tokens.find(token_id))
        if token is None or not token.is_live(request.at):
            raise nothing_here()
        used = token.last_used_at
        page = EndTokenPage(
            action=request.path,
            back=TOKENS,
            csrf=seen.csrf,
            name=token.name,
            last_used=None if used is None else When(used, request.at),
        )
        return self.site.page(request, page, user=seen.signed_in.user, headers=seen.headers)

    async def end(self, request: Request) -> Response:
        """End it. Who presses twice sees what the first press did."""
        found = await administered_form(self.site, request, Permission.KEYS)
        if isinstance(found, Response):
            return found
        actor, token_id = actor_of(found[0]), _named(request)
        await self.site.store.write(
            lambda tx: api_tokens.end(tx, actor, token_id, request.at), done_by=actor.done_by
        )
        return self.site.goes_to(f"{TOKENS}?ended=1")

    def _form(
        self,
        request: Request,
        seen: Visit,
        form: Form = EMPTY,
        faults: tuple[tuple[str, str], ...] = (),
    ) -> Response:
        page = NewTokenPage(
            action=NEW_TOKEN,
            back=TOKENS,
            csrf=seen.csrf,
            choices=_choices(seen.signed_in.user),
            name=form.get("name") or "",
            chosen=form.all("permission"),
            days="90" if form is EMPTY else form.get("days") or "",
            faults=faults,
        )
        status = _BAD_REQUEST if faults else 200
        return self.site.page(request, page, status, user=seen.signed_in.user, headers=seen.headers)


def _choices(user: User) -> tuple[tuple[str, str], ...]:
    may = powers_of(user.role).permissions
    return tuple((each.value, words) for each, words in PERMISSION_WORDS.items() if each in may)


def _named(request: Request) -> str:
    name = request.arguments["token_id"]
    if not name.isascii() or not name.isprintable():
        raise nothing_here()
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
