"""/admin/keys: list and show the signing keys, rotate them, and withdraw one in an emergency."""

from collections.abc import Sequence

from msgspec import Struct

from valetkey.authorization.actions.admin import server
from valetkey.authorization.actions.admin.permissions import Permission
from valetkey.authorization.layout.addresses import ADDRESSES
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.operations.operation import Services
from valetkey.authorization.site.admin.administrator import (
    SERVER,
    AdminRequest,
    administrator,
    page_not_found,
    with_query,
)
from valetkey.authorization.site.admin.confirm import (
    Buttons,
    Confirmed,
    Offer,
    Subject,
    confirmation,
    done_at,
)
from valetkey.authorization.site.admin.object_page import (
    ObjectPage,
    RecentEvents,
    facts,
    read_activity,
)
from valetkey.authorization.site.admin.objects import (
    ACTIVE,
    ListDeclaration,
    ListWords,
    ObjectList,
    Part,
    Row,
    badge,
    code,
    exact,
    since,
    unsorted,
    words,
)
from valetkey.authorization.site.page import Outcome, Page, Show
from valetkey.authorization.storage.signing_keys import KeyState, SigningKeyRecord
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace
from valetkey.kernel.text import translatable
from valetkey.web.body import Form

KEYS = ADDRESSES["admin_keys"]
ROTATE = "/admin/keys/rotate"
_KEY = "/admin/keys/{kid}"

_OF_ALL, _OF_ONE = Buttons.below("/keys/rotate"), Buttons.below("/keys/{kid}")
_TITLE = translatable("Signing keys")
_DAY = 86_400
_HOUR = 3_600
_ID_SHOWN = 8
_CURRENT = translatable(
    "The next key signs immediately. APIs that cache keys may reject new tokens until they fetch "
    "the keys again."
)
_STATES = {
    KeyState.NEXT: badge(translatable("Next")),
    KeyState.CURRENT: ACTIVE,
    KeyState.RETIRING: badge(translatable("Retiring"), "note"),
}
_MEANINGS = {
    KeyState.NEXT: translatable("Published but not signing yet. It becomes active automatically."),
    KeyState.CURRENT: translatable("Signs every new token."),
    KeyState.RETIRING: translatable(
        "No longer signs. It stays published until the last token signed with it has expired."
    ),
}
_LIST = ListDeclaration(
    KEYS,
    ListWords(
        caption=_TITLE,
        new="",
        empty_title=translatable("No keys yet"),
        empty_text=translatable("The server creates the first keys when it starts."),
        lead=translatable(
            "Signing keys sign tokens. They rotate automatically every %(days)s days; the next key "
            "is published at least %(hours)s hours before it signs."
        ),
    ),
    unsorted(
        translatable("Key"),
        translatable("State"),
        translatable("Algorithm"),
        translatable("Signs"),
    ),
)


class SigningKeyPages(Struct, frozen=True):
    """List and show the signing keys; rotate and withdraw them."""

    services: Services

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """The keys, one of them, and the confirmations before they are rotated or withdrawn."""
        services, finish, docs = self.services, done_at(KEYS), "how-to/operate/rotate-keys.html"
        return (
            Page(KEYS, administrator(), self.show, title=_TITLE, nav=SERVER, docs=docs),
            Page(_KEY, administrator(), self.show_one),
            confirmation(ROTATE, _OF_ALL, services, self._all, finish),
            confirmation(f"{_KEY}/{{act}}", _OF_ONE, services, self._one, finish),
        )

    async def show(self, request: AdminRequest) -> Outcome:
        """Show the signing keys."""
        done, tokens = request.query.get("done"), self.services.settings.tokens
        may = request.permissions.allow(Permission.KEYS)
        page = key_list(
            await self._records(request),
            request.now,
            tokens.signing_key_lifetime,
            tokens.key_publication,
            may=may,
            done=_OF_ALL.done(done) or _OF_ONE.done(done),
        )
        return Show(page)

    async def show_one(self, request: AdminRequest) -> Outcome:
        """Show a signing key."""
        record, permissions = await self._found(request), request.permissions
        actions = _OF_ONE.offers(record, permissions, f"{KEYS}/{record.kid}")
        activity = await read_activity(self.services, request, f"key:{record.kid}")
        may = permissions.allow(Permission.KEYS)
        return Show(key_page(record, request.now, actions, activity, may=may))

    async def _all(self, _request: AdminRequest, _confirmed: Confirmed, form: Form) -> Subject:
        names = [algorithm.value for algorithm in self.services.keys.algorithms]
        choices = {"algorithm": ("", *names) if len(names) > 1 else ()}
        values = {"at_once": "false", "algorithm": form.get("algorithm") or ""}
        return Subject(KEYS, values=values, choices=choices, above=_TITLE)

    async def _one(self, request: AdminRequest, _confirmed: Confirmed, _form: Form) -> Subject:
        record = await self._found(request)
        return Subject(
            f"{KEYS}/{record.kid}",
            record.kid,
            confirms=record.kid[:_ID_SHOWN],
            consequences=(_CURRENT,) if record.state(request.now) is KeyState.CURRENT else (),
        )

    async def _found(self, request: AdminRequest) -> SigningKeyRecord:
        kid = request.arguments["kid"]
        record = next((it for it in await self._records(request) if it.kid == kid), None)
        if record is None:
            raise page_not_found()
        return record

    async def _records(self, request: AdminRequest) -> Sequence[SigningKeyRecord]:
        actor, now = request.actor, request.now
        return await self.services.store.read(lambda tx: server.signing_keys(tx, actor, now))


def key_list(
    records: Sequence[SigningKeyRecord],
    now: Instant,
    lifetime: int,
    publication: int,
    *,
    may: bool,
    done: str = "",
) -> ObjectList:
    """Return the list of signing keys by algorithm, the next one first.

    `lifetime` is how long a key signs and `publication` how long it is published before, both in
    seconds; `may` is whether the role may rotate them.
    """
    values = {"days": lifetime // _DAY, "hours": publication // _HOUR}
    ordered = sorted(records, key=lambda it: (it.algorithm, -it.activates_at))
    return replace(_LIST, words=replace(_LIST.words, values=values)).whole(
        (_row(record, now) for record in ordered),
        may=False,
        done=done,
        links=(("rotate", translatable("Rotate keys"), ROTATE),) if may else (),
    )


def key_page(
    record: SigningKeyRecord,
    now: Instant,
    actions: tuple[Offer, ...] = (),
    activity: RecentEvents | None = None,
    *,
    may: bool = False,
) -> ObjectPage:
    """Return the page about a signing key; `may` is whether the role may rotate keys."""
    rotation = with_query(ROTATE, {"algorithm": record.algorithm})
    ends = (
        None if at is None else exact(When(at, now))
        for at in (record.retires_at, record.removed_at)
    )
    signed, published = ends
    return ObjectPage(
        KEYS,
        _TITLE,
        record.kid,
        (_STATES[record.state(now)],),
        facts=facts(
            (
                (translatable("State"), words(_MEANINGS[record.state(now)])),
                (translatable("Algorithm"), code(record.algorithm)),
                (translatable("Created"), since(When(record.created_at, now))),
                (translatable("Signs from"), exact(When(record.activates_at, now))),
                (translatable("Signed until"), signed),
                (translatable("Published until"), published),
                (translatable("Key ID"), Part("copy", record.kid, small="kid")),
            )
        ),
        links=(("rotate", translatable("Rotate keys"), rotation),) if may else (),
        actions=actions,
        activity=activity,
    )


def _row(record: SigningKeyRecord, now: Instant) -> Row:
    at, text = record.activates_at, translatable("since %(moment)s")
    if record.retires_at is not None:
        at, text = record.retires_at, translatable("until %(moment)s")
    elif at > now:
        text = translatable("from %(moment)s")
    return Row(
        record.kid,
        record.kid,
        f"{KEYS}/{record.kid}",
        (
            (_STATES[record.state(now)],),
            (code(record.algorithm),),
            (exact(When(at, now), text),),
        ),
    )
