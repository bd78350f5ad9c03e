"""/admin/keys: list the signing keys, rotate them, and withdraw one in an emergency."""

from collections.abc import Sequence
from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.actions.admin import server
from valetkey.authorization.actions.admin.permissions import Permission
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.model.signing_key import SigningKeyRecord
from valetkey.authorization.operations.operation import Services, call_of
from valetkey.authorization.operations.server import ROTATE_KEYS, WITHDRAW_KEY
from valetkey.authorization.operations.server_records import RotationWanted
from valetkey.authorization.site.admin.administrator import (
    SERVER,
    AdminRequest,
    administrator,
    page_not_found,
)
from valetkey.authorization.site.admin.confirm import MISMATCH, is_unconfirmed
from valetkey.authorization.site.page import Act, Outcome, Page, SeeOther, Show
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import Refused
from valetkey.kernel.words import translatable

KEYS = "/admin/keys"
ROTATE = "/admin/keys/rotate"
WITHDRAW = "/admin/keys/{kid}/withdraw"


class KeyLine(Struct, frozen=True):
    """One key; `state` is `next`, `current` or `retiring`. Times are exact to the second."""

    kid: str
    state: str
    made: When
    signs_from: When
    signs_until: When | None
    published_until: When | None
    #: The confirmation before it is withdrawn; "" if the role may not.
    withdraw_url: str


class KeysOfAlgorithm(Struct, frozen=True):
    """The keys of one algorithm, the next one first."""

    algorithm: str
    keys: tuple[KeyLine, ...]


class KeysPage(Struct, frozen=True):
    """The list of signing keys."""

    template: ClassVar[str] = "admin/server/keys.html"

    algorithms: tuple[KeysOfAlgorithm, ...]
    #: Days for which a key signs, and hours for which it is published before.
    lifetime: int
    publication: int
    rotate_url: str
    #: `rotated` or `withdrawn`; "" for nothing.
    done: str = ""


class ConfirmKeyPage(Struct, frozen=True):
    """The confirmation before keys are rotated, or one is withdrawn (`kid`)."""

    template: ClassVar[str] = "admin/server/key_ask.html"

    action: str
    back: str
    csrf: str
    algorithms: tuple[str, ...] = ()
    kid: str = ""
    state: str = ""
    #: The fault of the key id that was typed.
    fault: str = ""


_DAY = 86_400
_HOUR = 3_600
_DONE = ("rotated", "withdrawn")


class SigningKeys(Struct, frozen=True):
    """List the signing keys; rotate and withdraw them."""

    services: Services

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """Return the list, and the confirmations before a rotation and a withdrawal."""
        keeper = administrator(Permission.KEYS, recent=True)
        rotate, withdraw = translatable("Rotate keys"), translatable("Withdraw key")
        return (
            Page(KEYS, administrator(), self.show, title=translatable("Signing keys"), nav=SERVER),
            Page(ROTATE, keeper, self.ask_rotate, Act(self.rotate), title=rotate),
            Page(WITHDRAW, keeper, self.ask_withdraw, Act(self.withdraw), title=withdraw),
        )

    async def show(self, request: AdminRequest) -> Outcome:
        """Show the keys with the meaning of their dates."""
        actor, now = request.actor, request.now
        records = await self.services.store.read(lambda tx: server.signing_keys(tx, actor, now))
        may = request.powers.allow(Permission.KEYS)
        done = request.query.get("done") or ""
        page = KeysPage(
            algorithms=tuple(_groups(records, now, may=may)),
            lifetime=self.services.settings.tokens.signing_key_lifetime // _DAY,
            publication=self.services.settings.tokens.key_publication // _HOUR,
            rotate_url=ROTATE if may else "",
            done=done if done in _DONE else "",
        )
        return Show(page)

    async def ask_rotate(self, request: AdminRequest) -> Outcome:
        """Show the confirmation before a rotation."""
        names = tuple(each.value for each in self.services.keys.algorithms)
        page = ConfirmKeyPage(ROTATE, KEYS, request.csrf, algorithms=names)
        return Show(page)

    async def rotate(self, request: AdminRequest) -> Outcome:
        """Rotate the keys of one algorithm or all, at once or as scheduled."""
        form = request.form
        named = form.get("algorithm") or ""
        known = {each.value: each for each in self.services.keys.algorithms}
        if named and named not in known:
            raise page_not_found()
        algorithm: Algorithm | None = known.get(named)
        at_once = form.get("when") == "now"
        wanted = RotationWanted(algorithm, at_once)
        call = call_of(self.services, ROTATE_KEYS, request.actor, request.now, body=wanted)
        await ROTATE_KEYS.run(call)
        return SeeOther(f"{KEYS}?done=rotated")

    async def ask_withdraw(self, request: AdminRequest) -> Outcome:
        """Show the confirmation before a key is withdrawn."""
        return await self._question(request)

    async def _question(self, request: AdminRequest, fault: str = "") -> Outcome:
        kid, now = request.arguments["kid"], request.now
        actor = request.actor
        records = await self.services.store.read(lambda tx: server.signing_keys(tx, actor, now))
        record = next((each for each in records if each.kid == kid), None)
        if record is None:
            raise page_not_found()
        state = record.state(now).value
        page = ConfirmKeyPage(_withdraw(kid), KEYS, request.csrf, kid=kid, state=state, fault=fault)
        return Show(page, 400 if fault else 200)

    async def withdraw(self, request: AdminRequest) -> Outcome:
        """Withdraw a key. A repeated submit shows the result of the first one."""
        if is_unconfirmed(request.form):
            return await self._question(request, MISMATCH)
        call = call_of(self.services, WITHDRAW_KEY, request.actor, request.now, request.arguments)
        try:
            await WITHDRAW_KEY.run(call)
        except Refused as refused:
            # A repeated submit finds the key withdrawn.
            if refused.refusal.check != "admin.key":
                raise
        return SeeOther(f"{KEYS}?done=withdrawn")


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
