"""/admin/keys: the keys that sign, their rotation, and the withdrawal of one in an emergency."""

from collections.abc import Sequence
from dataclasses import dataclass

from valetkey.authorization.deeds.admin.permissions import Permission, powers_of
from valetkey.authorization.deeds.admin.things import keys
from valetkey.authorization.deeds.admin.things.keys import KeyDesk
from valetkey.authorization.endpoints.account.step_up import stepped_up
from valetkey.authorization.endpoints.account.visit import Visit
from valetkey.authorization.endpoints.admin.things.addresses import KEYS, KEYS_ROTATE
from valetkey.authorization.endpoints.admin.visit import (
    actor_of,
    administered,
    administered_form,
    nothing_here,
)
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.model.server.signing_key import SigningKeyRecord
from valetkey.authorization.pages.admin.things.server.keys import (
    KeyAskPage,
    KeyLine,
    KeysOfAlgorithm,
    KeysPage,
)
from valetkey.authorization.site.site import Site
from valetkey.authorization.tokens.signing_keys import SigningKeyRing
from valetkey.config.settings import TokenSettings
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.moment import Instant
from valetkey.web.exchange import Request, Response
from valetkey.web.form import read_query

_DAY = 86_400
_HOUR = 3_600
_DONE = ("rotated", "withdrawn")


@dataclass(frozen=True, slots=True)
class KeysEndpoint:
    """The keys."""

    site: Site
    keys: SigningKeyRing
    settings: TokenSettings

    async def get(self, request: Request) -> Response:
        """All of them, each with what its dates mean."""
        seen = await administered(self.site, request)
        if isinstance(seen, Response):
            return seen
        actor, now = actor_of(seen), request.at
        records = await self.site.store.read(lambda tx: keys.look(tx, actor, now))
        may = powers_of(seen.signed_in.user.role).allow(Permission.KEYS)
        done = read_query(request.query).get("done") or ""
        page = KeysPage(
            algorithms=tuple(_groups(records, now, may=may)),
            lifetime=self.settings.signing_key_lifetime // _DAY,
            publication=self.settings.key_publication // _HOUR,
            rotate_url=KEYS_ROTATE if may else "",
            done=done if done in _DONE else "",
        )
        return self.site.page(request, page, user=seen.signed_in.user, headers=seen.headers)

    async def ask_rotate(self, request: Request) -> Response:
        """The question before they are rotated."""
        seen = await self._stepped_up(request)
        if isinstance(seen, Response):
            return seen
        names = tuple(each.value for each in self.keys.algorithms)
        page = KeyAskPage(KEYS_ROTATE, KEYS, seen.csrf, algorithms=names)
        return self.site.page(request, page, user=seen.signed_in.user, headers=seen.headers)

    async def rotate(self, request: Request) -> Response:
        """Rotate them."""
        found = await administered_form(self.site, request, Permission.KEYS)
        if isinstance(found, Response):
            return found
        seen, form = found
        if asked := await stepped_up(self.site, request, seen):
            return asked
        named = form.get("algorithm") or ""
        known = {each.value: each for each in self.keys.algorithms}
        if named and named not in known:
            raise nothing_here()
        algorithm: Algorithm | None = known.get(named)
        at_once = form.get("when") == "now"
        desk = KeyDesk(self.keys)
        await desk.rotate(actor_of(seen), request.at, at_once=at_once, algorithm=algorithm)
        return self.site.goes_to(f"{KEYS}?done=rotated")

    async def ask_withdraw(self, request: Request) -> Response:
        """The question before one is withdrawn."""
        seen = await self._stepped_up(request)
        if isinstance(seen, Response):
            return seen
        kid, now = request.arguments["kid"], request.at
        actor = actor_of(seen)
        records = await self.site.store.read(lambda tx: keys.look(tx, actor, now))
        record = next((each for each in records if each.kid == kid), None)
        if record is None:
            raise nothing_here()
        state = record.state(now).value
        page = KeyAskPage(_withdraw(kid), KEYS, seen.csrf, kid=kid, state=state)
        return self.site.page(request, page, user=seen.signed_in.user, headers=seen.headers)

    async def withdraw(self, request: Request) -> Response:
        """Withdraw it. Who presses twice sees what the first press did."""
        found = await administered_form(self.site, request, Permission.KEYS)
        if isinstance(found, Response):
            return found
        seen, _ = found
        if asked := await stepped_up(self.site, request, seen):
            return asked
        await KeyDesk(self.keys).withdraw(actor_of(seen), request.arguments["kid"], request.at)
        return self.site.goes_to(f"{KEYS}?done=withdrawn")

    async def _stepped_up(self, request: Request) -> Visit | Response:
        seen = await administered(self.site, request, Permission.KEYS)
        if isinstance(seen, Response):
            return seen
        return await stepped_up(self.site, request, seen) or seen


def _groups(
    records: Sequence[SigningKeyRecord], now: Instant, *, may: bool
) -> list[KeysOfAlgorithm]:
    names = list(dict.fromkeys(each.algorithm for each in records))
    return [
        KeysOfAlgorithm(
            name,
            tuple(
                _line(each, now, may=may) for each in reversed(records) if each.algorithm == name
            ),
        )
        for name in names
    ]


def _line(record: SigningKeyRecord, now: Instant, *, may: bool) -> KeyLine:
    def when(at: Instant | None) -> When | None:
        return None if at is None else When(at, now)

    return KeyLine(
        kid=record.kid,
        state=record.state(now).value,
        made=When(record.created_at, now),
        signs_from=When(record.activates_at, now),
        signs_until=when(record.retires_at),
        published_until=when(record.removed_at),
        withdraw_url=_withdraw(record.kid) if may else "",
    )


def _withdraw(kid: str) -> str:
    return f"{KEYS}/{kid}/withdraw"
