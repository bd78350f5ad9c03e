"""/admin/keys: list the signing keys, rotate them, and withdraw one in an emergency."""

from collections.abc import Sequence
from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.actions.admin import server
from valetkey.authorization.actions.admin.permissions import Permission
from valetkey.authorization.layout.addresses import ADDRESSES
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.model.signing_key import KeyState, SigningKeyRecord
from valetkey.authorization.operations.operation import Services
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
from valetkey.authorization.site.page import Outcome, Page, Show
from valetkey.kernel.moment import Instant
from valetkey.kernel.text import translatable
from valetkey.web.body import Form

KEYS = ADDRESSES["admin_keys"]
ROTATE = "/admin/keys/rotate"
_ROTATION = "/admin/keys/{act}"
_ACT = "/admin/keys/{kid}/{act}"

_OF_ALL, _OF_ONE = Buttons.below("/keys/rotate"), Buttons.below("/keys/{kid}")
_TITLE = translatable("Signing keys")


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
    #: What was just done; "" for nothing.
    done: str = ""


_DAY = 86_400
_HOUR = 3_600
_ID_SHOWN = 8
_CURRENT = translatable(
    "The next key signs immediately. APIs that cache keys may reject new tokens until they fetch "
    "the keys again."
)


class SigningKeyPages(Struct, frozen=True):
    """List the signing keys; rotate and withdraw them."""

    services: Services

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """The keys, and the confirmations before they are rotated and before one is withdrawn."""
        services, finish = self.services, done_at(KEYS)
        return (
            Page(
                KEYS,
                administrator(),
                self.show,
                title=_TITLE,
                nav=SERVER,
                docs="how-to/operate/rotate-keys.html",
            ),
            confirmation(_ROTATION, _OF_ALL, services, self._all, finish),
            confirmation(_ACT, _OF_ONE, services, self._one, finish),
        )

    async def show(self, request: AdminRequest) -> Outcome:
        """Show the signing keys with the meaning of their dates."""
        may, done = request.permissions.allow(Permission.KEYS), request.query.get("done")
        page = KeysPage(
            algorithms=tuple(_groups(await self._records(request), request.now, may=may)),
            lifetime=self.services.settings.tokens.signing_key_lifetime // _DAY,
            publication=self.services.settings.tokens.key_publication // _HOUR,
            rotate_url=ROTATE if may else "",
            done=_OF_ALL.done(done) or _OF_ONE.done(done),
        )
        return Show(page)

    async def _all(self, _request: AdminRequest, _confirmed: Confirmed, _form: Form) -> Subject:
        names = [each.value for each in self.services.keys.algorithms]
        choices = {"algorithm": ("", *names) if len(names) > 1 else ()}
        return Subject(KEYS, values={"at_once": "false"}, choices=choices, above=_TITLE)

    async def _one(self, request: AdminRequest, _confirmed: Confirmed, _form: Form) -> Subject:
        wanted = request.arguments["kid"]
        record = next((it for it in await self._records(request) if it.kid == wanted), None)
        if record is None:
            raise page_not_found()
        return Subject(
            KEYS,
            record.kid,
            above=_TITLE,
            confirms=record.kid[:_ID_SHOWN],
            consequences=(_CURRENT,) if record.state(request.now) is KeyState.CURRENT else (),
        )

    async def _records(self, request: AdminRequest) -> Sequence[SigningKeyRecord]:
        actor, now = request.actor, request.now
        return await self.services.store.read(lambda tx: server.signing_keys(tx, actor, now))


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
        withdraw_url=f"{KEYS}/{record.kid}/withdraw" if may else "",
    )
