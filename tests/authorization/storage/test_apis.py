"""APIs in both databases: endings in batches, the feed, and disabling against issuing."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from valetkey.authorization.actions import bulk_revocation
from valetkey.authorization.actions.bulk_revocation import continue_oldest, end_all_of_api
from valetkey.authorization.apis.storage import ApiSearch
from valetkey.authorization.model.api import Api, generations
from valetkey.authorization.model.client import AccessTokenFormat
from valetkey.authorization.model.event.event import by_cli
from valetkey.authorization.storage.revision import revision
from valetkey.authorization.storage.revocations import RevokedKind
from valetkey.authorization.storage.search import ListOrder
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.tokens.apis import ApiDirectory, default_api
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import Refusal
from valetkey.kernel.replace import replace
from valetkey.kernel.scope import Scope
from valetkey.testing.storage_conformance import NOW, Memory, client, grant, user

DEFAULT = default_api("https://api.example", "API", {}, Scope())
CALENDAR = replace(
    default_api("https://mcp.example.com/mcp", "Calendar", {"see": "see"}, Scope(("sync",))),
    id="api_1",
    access_token_format=AccessTokenFormat.JWT,
    clients=frozenset({"printer", "robot"}),
    created_at=NOW,
    changed_at=NOW,
)
BY = by_cli("test")


@pytest.fixture
def memory(database_url: str, tmp_path: Path) -> Iterator[Memory]:
    memory = Memory(database_url, tmp_path)
    memory.write(lambda tx: tx.clients.register(client()))
    memory.write(lambda tx: tx.users.register(user()))
    memory.write(_declare)
    yield memory
    memory.close()


def _declare(tx: Transaction) -> bool:
    tx.apis.hold_all()
    return tx.apis.add(CALENDAR, CALENDAR.identifier)


def _disable(tx: Transaction) -> None:
    acting = tx.acting(BY)
    api = acting.apis.find_to_change("api_1")
    assert api is not None
    acting.apis.disable(api.id, NOW)
    end_all_of_api(acting, api, NOW, "api_disabled")


def _work_off(memory: Memory) -> None:
    while memory.write(lambda tx: continue_oldest(tx, NOW)):
        pass


def test_api_is_read_as_it_was_written(memory: Memory) -> None:
    assert memory.read(lambda tx: tx.apis.find_by_key(CALENDAR.identifier)) == CALENDAR
    assert memory.read(lambda tx: tx.apis.page("", 10)) == [CALENDAR]
    assert memory.read(lambda tx: tx.apis.has_machine_scope("sync"))
    assert not memory.read(lambda tx: tx.apis.has_machine_scope("see"))


def test_apis_are_searched_and_paged_in_every_order(memory: Memory) -> None:
    def declare(tx: Transaction) -> None:
        for number, name in ((2, "calendar"), (3, "Files"), (4, "mail"), (5, "Archive")):
            identifier = f"https://{name.lower()}.example"
            made = Instant(NOW + number // 2)
            api = replace(CALENDAR, id=f"api_{number}", name=name, identifier=identifier)
            tx.apis.add(replace(api, created_at=made), identifier)

    memory.write(declare)
    # By identifier, and by name without regard to case; APIs made at once are in order of their id.
    orders: dict[ListOrder | None, list[int]] = {
        None: [5, 2, 3, 4, 1],
        ListOrder.NAME: [5, 1, 2, 3, 4],
        ListOrder.NAME_DESCENDING: [4, 3, 2, 1, 5],
        ListOrder.OLDEST: [1, 2, 3, 4, 5],
        ListOrder.NEWEST: [5, 4, 3, 2, 1],
    }
    for order, expected in orders.items():
        api_ids: list[str] = []
        after = ""
        while ids := memory.read(partial(_page, after, order)):
            api_ids += ids
            last = memory.read(partial(_find, ids[-1]))
            after = last.id if order else last.identifier
        assert api_ids == [f"api_{number}" for number in expected], order
        parts = memory.read(partial(_named_calendar, order))
        assert sorted(parts) == ["api_1", "api_2"], order
    assert memory.read(lambda tx: ApiSearch(tx.db).page("", 9, "mcp.example.com")) == ["api_1"]
    assert memory.read(lambda tx: ApiSearch(tx.db).count("calendar", 9)) == 2
    assert memory.read(lambda tx: ApiSearch(tx.db).count("", 4)) == 4
    again = memory.read(
        lambda tx: ApiSearch(tx.db).page("api_gone", 9, "", ListOrder.NAME_DESCENDING)
    )
    assert len(again) == 5


def _page(after: str, order: ListOrder | None, tx: Transaction) -> Sequence[str]:
    return ApiSearch(tx.db).page(after, 2, "", order)


def _named_calendar(order: ListOrder | None, tx: Transaction) -> Sequence[str]:
    return ApiSearch(tx.db).page("", 9, "CALENDAR", order)


def _find(api_id: str, tx: Transaction) -> Api:
    api = tx.apis.find(api_id)
    assert api is not None
    return api


def test_disabling_ends_grants_in_batches_and_leaves_other_apis(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_revocation, "BATCH", 2)
    memory.write(lambda tx: [_issue(tx, f"gr_a{n}", (CALENDAR,)) for n in range(5)])
    memory.write(lambda tx: _issue(tx, "gr_mixed", (DEFAULT, CALENDAR)))
    memory.write(lambda tx: tx.grants.issue(grant("gr_default")))
    memory.write(_disable)
    _work_off(memory)
    for name in [f"gr_a{n}" for n in range(5)]:
        assert _is_over(memory, name)
    assert not _is_over(memory, "gr_mixed")
    assert not _is_over(memory, "gr_default")
    marked = memory.read(lambda tx: tx.revocations.ended_api(CALENDAR.identifier, NOW))
    assert marked


def test_feed_of_an_api_is_filtered_by_its_grants_and_tokens(memory: Memory) -> None:
    def write(tx: Transaction) -> None:
        _issue(tx, "gr_in", (CALENDAR,))
        for kind, subject, audience in (
            (RevokedKind.GRANT, "gr_in", ""),
            (RevokedKind.GRANT, "gr_out", ""),
            (RevokedKind.TOKEN, "at_in", CALENDAR.identifier),
            (RevokedKind.TOKEN, "at_out", DEFAULT.identifier),
            (RevokedKind.USER, "1001", ""),
            (RevokedKind.API, CALENDAR.identifier, ""),
            (RevokedKind.API, "https://other.example", ""),
        ):
            tx.revocations.add(kind, subject, NOW, audience)

    memory.write(write)
    page = memory.read(lambda tx: tx.revocations.page_of_api(CALENDAR, Instant(0), "", "", 10))
    assert {revocation.id for revocation in page} == {"gr_in", "at_in", "1001", CALENDAR.identifier}
    default = memory.read(lambda tx: tx.revocations.page(Instant(0), "", "", 10))
    assert {revocation.id for revocation in default} == {
        "gr_in",
        "gr_out",
        "at_in",
        "at_out",
        "1001",
    }


def test_nothing_issued_while_disabling_survives(memory: Memory) -> None:
    directory = ApiDirectory(memory.store, lambda: -1, DEFAULT)

    def work(tx: Transaction, number: int) -> str:
        if number == 0:
            _disable(tx)
            return ""
        apis = directory.requested_in(tx, (CALENDAR.identifier,), client())
        if isinstance(apis, Refusal):
            return ""
        _issue(tx, f"gr_race{number}", apis)
        return f"gr_race{number}"

    issued = [name for name in memory.contend(work) if name]
    _work_off(memory)
    assert all(_is_over(memory, name) for name in issued)


def test_api_read_before_a_failed_transaction_is_not_kept_in_the_cache(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = memory.read(lambda tx: revision(tx.db))
    directory = ApiDirectory(memory.store, lambda: number, DEFAULT)
    directory.renew()
    first = memory.read(lambda tx: directory.find_by_id(tx, "api_1"))
    assert memory.read(lambda tx: directory.find_by_id(tx, "api_1")) is first
    failures = memory.store.engine.failures()

    def failed(_: object) -> int:
        return failures + 1

    monkeypatch.setattr(type(memory.store.engine), "failures", failed)
    again = memory.read(lambda tx: directory.find_by_id(tx, "api_1"))
    assert again == first
    assert again is not first
    directory.renew()
    kept = memory.read(lambda tx: directory.find_by_id(tx, "api_1"))
    assert kept is not first
    assert memory.read(lambda tx: directory.find_by_id(tx, "api_1")) is kept


def _issue(tx: Transaction, grant_id: str, apis: tuple[Api, ...]) -> bool:
    return tx.grants.issue(grant(grant_id), generations(apis))


def _is_over(memory: Memory, grant_id: str) -> bool:
    grant_record = memory.read(lambda tx: tx.grants.find(grant_id))
    return grant_record is None or grant_record.grant.revoked_at is not None
