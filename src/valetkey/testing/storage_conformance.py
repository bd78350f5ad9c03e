"""Conformance tests of the authorization server's stores: results, and which caller wins.

class TestStores(StorageConformance):
    @pytest.fixture
    def memory(self, …): yield Memory(url, directory)
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Barrier
from typing import TypeVar

import pytest

from valetkey.authorization.app.foundation import SCHEMA
from valetkey.authorization.features import hooks
from valetkey.authorization.model.client import Client, ClientSecret, ProfileName
from valetkey.authorization.model.event.event import USUAL_ACTOR, by_cli
from valetkey.authorization.model.event.grants import ClientEnabled
from valetkey.authorization.model.grant import Consent, Grant, Voucher, VoucherKind
from valetkey.authorization.model.user import Session, Uid, User
from valetkey.authorization.storage.credentials import Limit
from valetkey.authorization.storage.grants import ClientUsage, Rotation
from valetkey.authorization.storage.revision import revision
from valetkey.authorization.storage.revocations import RevocationRecord, RevokedKind
from valetkey.authorization.storage.signing_keys import KeyState, SigningKeyRecord
from valetkey.authorization.storage.tokens import ReferenceToken
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.config.settings import Settings
from valetkey.database.connect import connect
from valetkey.database.decisions import Decision
from valetkey.database.migrate import migrate
from valetkey.kernel.moment import Instant, seconds
from valetkey.kernel.replace import replace
from valetkey.kernel.runtime import SYSTEM
from valetkey.kernel.scope import Scope
from valetkey.kernel.secret import Fingerprint

T = TypeVar("T")

THREADS = 16
NOW = Instant(1_800_000_000)
LATER = Instant(NOW + 60)


def client(client_id: str = "printer") -> Client:
    """Return a confidential client."""
    return Client(
        id=client_id,
        name="Notes Printer",
        description="Prints notes",
        profile_name=ProfileName.CLASSIC,
        redirect_uris=("https://app.example/cb", "https://app.example/other?a=1"),
        grant_types=frozenset({"authorization_code", "refresh_token"}),
        scope=Scope.of("read", "notes:read"),
        default_scope=Scope.of("notes:read"),
        requires_pkce=False,
        rotates_refresh_token=True,
        ends_with_session=True,
        policy_uri="https://app.example/policy",
        created_at=NOW,
        changed_at=NOW,
    )


def user(uid: int = 1001, name: str = "ada") -> User:
    """Return a user."""
    return User(Uid(uid), name, f"{name}@example.com", None, name.title(), NOW, NOW, None)


def session(session_id: str = "se_1", uid: int = 1001) -> Session:
    """Return the session of that user in a browser."""
    return Session(
        session_id, Uid(uid), NOW, ("pwd",), "Firefox", NOW, NOW, Instant(NOW + 600), None
    )


def grant(grant_id: str = "gr_1", uid: int = 1001) -> Grant:
    """Return a grant of the user to the client, with a refresh token."""
    return Grant(
        id=grant_id,
        client_id="printer",
        uid=Uid(uid),
        session_id="",
        scope=Scope.of("notes:read"),
        audience="https://api.example",
        grant_type="authorization_code",
        auth_time=NOW,
        created_at=NOW,
        last_used_at=NOW,
        expires_at=Instant(NOW + 600),
        refresh_print="first",
        refresh_expires_at=Instant(NOW + 300),
        generation=1,
    )


def voucher(text: str = "a code", client_id: str = "printer") -> Voucher:
    """Return the voucher of a code."""
    return Voucher(VoucherKind.CODE, Fingerprint(text), client_id, "gr_1", "{}", LATER)


def add_records(tx: Transaction) -> None:
    """Insert the client, the user and a grant."""
    tx.clients.register(client())
    tx.users.register(user())
    tx.sessions.start(session(), Fingerprint("cookie"))
    tx.grants.issue(grant())


class Memory:
    """A store on a database of its own, with methods that block."""

    def __init__(self, url: str, directory: Path) -> None:
        """Create the tables and the test data."""
        self.store = Store(
            connect(url, directory=directory), SYSTEM.random, by_cli("test"), hooks(Settings())
        )
        asyncio.run(migrate(self.store.engine, SCHEMA))
        self.write(add_records)

    def write(self, work: Callable[[Transaction], T]) -> T:
        """Run a transaction that writes, and return its result."""
        return asyncio.run(self.store.write(work, done_by=USUAL_ACTOR))

    def read(self, work: Callable[[Transaction], T]) -> T:
        """Run a transaction that reads, and return its result."""
        return asyncio.run(self.store.read(work))

    def contend(self, work: Callable[[Transaction, int], T]) -> list[T]:
        """Run the same work on sixteen threads at once. Return the results."""
        start = Barrier(THREADS)

        def begin(number: int) -> T:
            start.wait()
            return self.write(lambda tx: work(tx, number))

        with ThreadPoolExecutor(THREADS) as threads:
            return list(threads.map(begin, range(THREADS)))

    def close(self) -> None:
        """Close the database."""
        asyncio.run(self.store.engine.close())


_ADA = Uid(1001)


class StorageConformance:
    """Test each storage operation, and those that may succeed only once with concurrent callers.

    Give it a pytest fixture `memory`: a `Memory` on a database of its own.
    """

    def test_voucher_is_issued_once(self, memory: Memory) -> None:
        """Exactly one concurrent caller stores a string: replay detection depends on it."""
        outcomes = memory.contend(lambda tx, _: tx.vouchers.issue(voucher()))
        assert sorted(outcomes) == [False] * (THREADS - 1) + [True]

    def test_voucher_is_redeemed_once(self, memory: Memory) -> None:
        """Exactly one concurrent caller redeems a voucher."""
        memory.write(lambda tx: tx.vouchers.issue(voucher()))
        outcomes = memory.contend(lambda tx, _: tx.vouchers.redeem(voucher(), NOW))
        assert sorted(outcomes) == [False] * (THREADS - 1) + [True]
        stored_voucher = memory.read(
            lambda tx: tx.vouchers.find(VoucherKind.CODE, Fingerprint("a code"))
        )
        assert stored_voucher == replace(voucher(), redeemed_at=NOW)

    def test_subject_has_one_voucher_of_a_kind(self, memory: Memory) -> None:
        """Of several concurrent replacements one remains, and the earlier voucher is void."""
        whose = replace(voucher(), subject=Fingerprint("1001"))
        memory.write(lambda tx: tx.vouchers.replace(whose))
        other = replace(voucher("another"), subject=Fingerprint("1002"))
        memory.write(lambda tx: tx.vouchers.replace(other))
        newer = [replace(whose, fingerprint=Fingerprint(f"code {n}")) for n in range(THREADS)]
        memory.contend(lambda tx, n: tx.vouchers.replace(newer[n]))
        assert not memory.write(lambda tx: tx.vouchers.redeem(whose, NOW))
        redeemed = memory.write(
            lambda tx: [tx.vouchers.redeem(replacement, NOW) for replacement in newer]
        )
        assert sorted(redeemed) == [False] * (THREADS - 1) + [True]
        assert memory.write(lambda tx: tx.vouchers.redeem(other, NOW))

    def test_separate_read_and_redemption_redeems_twice(self, memory: Memory) -> None:
        """Check the suite itself: two callers win if reading and redeeming are separate."""
        memory.write(lambda tx: tx.vouchers.issue(voucher()))
        print_ = Fingerprint("a code")
        looked = [
            memory.read(lambda tx: tx.vouchers.find(VoucherKind.CODE, print_)) for _ in range(2)
        ]
        assert [
            stored_voucher is not None and stored_voucher.redeemed_at is None
            for stored_voucher in looked
        ] == [True, True]
        assert [memory.write(lambda tx: tx.vouchers.redeem(voucher(), NOW)) for _ in "12"] == [
            True,
            False,
        ]

    def test_expired_voucher_is_refused_and_deleted(self, memory: Memory) -> None:
        """A record is live while `expires_at > now`."""
        memory.write(lambda tx: tx.vouchers.issue(voucher()))
        assert not memory.write(lambda tx: tx.vouchers.redeem(voucher(), LATER))
        assert memory.write(lambda tx: tx.vouchers.sweep(Instant(LATER - 1), 10)) == 0
        assert memory.write(lambda tx: tx.vouchers.sweep(LATER, 10)) == 1

    def test_refresh_token_rotates_once(self, memory: Memory) -> None:
        """Of several concurrent successors exactly one is written."""
        won = memory.contend(lambda tx, n: tx.grants.rotate(_rotation(f"next {n}"), NOW))
        assert sorted(won) == [False] * (THREADS - 1) + [True]
        stored_grant = memory.read(lambda tx: tx.grants.find("gr_1"))
        assert stored_grant is not None
        assert stored_grant.grant.refresh_print == f"next {won.index(True)}"
        assert stored_grant.grant.generation == grant().generation + 1
        assert stored_grant.previous is not None
        assert stored_grant.previous.fingerprint == "first"

    def test_rotation_requires_current_token_and_live_grant(self, memory: Memory) -> None:
        """An earlier token, an expired one or a revoked grant is not rotated."""
        idle = Instant(NOW + 300)
        assert not memory.write(lambda tx: tx.grants.rotate(_rotation("x", "other"), NOW))
        assert not memory.write(lambda tx: tx.grants.rotate(_rotation("x"), idle))
        assert not memory.write(lambda tx: tx.grants.use("gr_1", Fingerprint("other"), idle, NOW))
        assert memory.write(lambda tx: tx.grants.use("gr_1", Fingerprint("first"), idle, NOW))
        assert memory.write(lambda tx: tx.grants.revoke("gr_1", NOW, "tested"))
        assert not memory.write(lambda tx: tx.grants.rotate(_rotation("x"), NOW))

    def test_grant_is_issued_once_and_revoked_once(self, memory: Memory) -> None:
        """The revocation of a grant is reported to resource servers once."""
        outcomes = memory.contend(lambda tx, _: tx.grants.issue(grant("gr_2")))
        assert sorted(outcomes) == [False] * (THREADS - 1) + [True]
        outcomes = memory.contend(lambda tx, _: tx.grants.revoke("gr_2", NOW, "tested"))
        assert sorted(outcomes) == [False] * (THREADS - 1) + [True]
        page = memory.read(lambda tx: tx.revocations.page(Instant(0), "", "", 10))
        assert [(entry.kind, entry.id) for entry in page] == [(RevokedKind.GRANT, "gr_2")]

    def test_grant_is_live_only_with_client_user_and_session(self, memory: Memory) -> None:
        """One query reads client, user, session and grant."""

        def bound(tx: Transaction) -> None:
            tx.grants.issue(replace(grant("gr_3"), session_id="se_1"))

        def ended(at: Instant = NOW) -> str:
            stored_grant = memory.read(lambda tx: tx.grants.find("gr_3"))
            assert stored_grant is not None
            return stored_grant.liveness.ended(at)

        memory.write(bound)
        assert ended() == ""
        assert ended(Instant(NOW + 600)) == "grant.expired"
        assert memory.write(lambda tx: tx.sessions.end("se_1", NOW))
        assert ended() == "session.ended"
        memory.write(lambda tx: tx.users.change(replace(user(), disabled_at=NOW)))
        assert ended() == "user.disabled"
        memory.write(lambda tx: tx.clients.change(replace(client(), disabled_at=NOW)))
        assert ended() == "client.disabled"

    def test_live_grants_are_listed_by_user_and_by_client(self, memory: Memory) -> None:
        """Revoked and expired grants are not listed."""
        memory.write(lambda tx: tx.grants.issue(grant("gr_2")))
        memory.write(lambda tx: tx.grants.revoke("gr_1", NOW, "tested"))
        of_user = memory.read(lambda tx: tx.grants.live_of_user(_ADA, NOW, 9))
        assert list(of_user) == [grant("gr_2")]
        assert memory.read(lambda tx: tx.grants.usage_of("printer", NOW)) == ClientUsage(1, 1)
        assert memory.write(lambda tx: tx.grants.sweep(Instant(NOW + 600), 10)) == 2

    def test_reference_token_ends_with_its_grant(self, memory: Memory) -> None:
        """A token by reference ends when it expires, and with its grant or its client."""
        print_ = Fingerprint("token")
        token = ReferenceToken(
            "at_1", "printer", "gr_1", 1001, Scope.of("notes:read"), "https://api", NOW, LATER
        )
        own = replace(token, id="at_2", grant_id=None, uid=None)
        memory.write(lambda tx: tx.access_tokens.issue(print_, token))
        memory.write(lambda tx: tx.access_tokens.issue(Fingerprint("own"), own))
        live_pair = memory.read(lambda tx: tx.access_tokens.find(print_))
        assert live_pair is not None
        assert live_pair[0] == token
        assert live_pair[1].ended(NOW) == ""
        outcomes = memory.contend(lambda tx, _: tx.access_tokens.revoke("at_1", print_, "", NOW))
        assert sorted(outcomes) == [False] * (THREADS - 1) + [True]
        memory.write(lambda tx: tx.revocations.add(RevokedKind.CLIENT, "printer", NOW))
        by_itself = memory.read(lambda tx: tx.access_tokens.find(print_))
        by_client = memory.read(lambda tx: tx.access_tokens.find(Fingerprint("own")))
        for ended_pair in (by_itself, by_client):
            assert ended_pair is not None
            assert ended_pair[1].ended(NOW)
        assert memory.write(lambda tx: tx.access_tokens.sweep(LATER, 10)) == 2

    def test_revocations_are_paged_in_order(self, memory: Memory) -> None:
        """No entry is skipped between two pages, also among those of one second."""

        def revoke(tx: Transaction) -> None:
            for number in range(5):
                tx.revocations.add(RevokedKind.TOKEN, f"at_{number}", NOW)

        memory.write(revoke)
        seen: list[str] = []
        position = (Instant(0), "", "")
        while page := memory.read(partial(_two_after, position)):
            seen += [entry.id for entry in page]
            position = (page[-1].revoked_at, page[-1].kind.value, page[-1].id)
        assert seen == [f"at_{n}" for n in range(5)]
        outcomes = memory.contend(
            lambda tx, _: tx.revocations.add_once(RevokedKind.TOKEN, "at_9", NOW)
        )
        assert sorted(outcomes) == [False] * (THREADS - 1) + [True]
        assert memory.read(lambda tx: tx.revocations.covers("at_9", "printer", NOW))
        assert not memory.read(lambda tx: tx.revocations.covers("at_10", "printer", NOW))

    def test_throttle_enforces_its_limit_under_concurrency(self, memory: Memory) -> None:
        """The count decreases with time, and a successful attempt is given back."""
        limit = Limit(attempts=5, window=seconds(50))
        outcomes = memory.contend(lambda tx, _: tx.throttles.take("a", limit, NOW))
        assert outcomes.count(0) == limit.attempts
        assert {wait for wait in outcomes if wait} == {10}
        assert memory.write(lambda tx: tx.throttles.take("a", limit, Instant(NOW + 4))) == 6
        assert memory.write(lambda tx: tx.throttles.take("a", limit, Instant(NOW + 10))) == 0
        assert memory.write(lambda tx: tx.throttles.take("a", limit, Instant(NOW + 10))) == 10
        memory.write(lambda tx: tx.throttles.give_back("a"))
        assert memory.write(lambda tx: tx.throttles.take("a", limit, Instant(NOW + 10))) == 0
        assert memory.write(lambda tx: tx.throttles.take("b", limit, NOW)) == 0

    def test_finished_attempts_count_only_for_all_attempts(self, memory: Memory) -> None:
        """An attempt that is finished too late still counts; ten times the limit may be begun."""
        limit = Limit(attempts=2, window=seconds(100))
        outcomes = memory.contend(lambda tx, _: tx.throttles.begin("a", limit, NOW))
        assert outcomes.count(0) == limit.attempts
        late = Instant(NOW + limit.window)
        memory.write(lambda tx: tx.throttles.finish("a", NOW, limit.window, late))
        assert memory.write(lambda tx: tx.throttles.begin("a", limit, NOW)) > 0
        for _ in range(9 * limit.attempts):
            memory.write(lambda tx: tx.throttles.finish("a", NOW, limit.window, NOW))
            assert memory.write(lambda tx: tx.throttles.begin("a", limit, NOW)) == 0
        memory.write(lambda tx: tx.throttles.finish("a", NOW, limit.window, NOW))
        assert memory.write(lambda tx: tx.throttles.begin("a", limit, NOW)) > 0
        memory.write(lambda tx: tx.throttles.cancel("a"))
        assert memory.write(lambda tx: tx.throttles.begin("a", limit, NOW)) == 0

    def test_clock_correction_does_not_prolong_the_wait(self, memory: Memory) -> None:
        """A clock set back by more than servers may differ empties the buckets that it filled."""
        limit = Limit(attempts=3, window=seconds(900))
        ahead = Instant(NOW + 3_600)
        for _ in range(3):
            assert memory.write(lambda tx: tx.throttles.take("a", limit, ahead)) == 0
        # Another server's clock is only a little behind: that empties nothing.
        assert memory.write(lambda tx: tx.throttles.take("a", limit, Instant(ahead - 30))) > 0
        outcomes = [memory.write(lambda tx: tx.throttles.take("a", limit, NOW)) for _ in range(4)]
        assert [bool(wait) for wait in outcomes] == [False, False, False, True]
        assert outcomes[-1] <= limit.window

    def test_registered_client_is_read_unchanged(self, memory: Memory) -> None:
        """Secrets are read as well; a taken id is refused, and each change is a new revision."""
        stored_client = memory.read(lambda tx: tx.clients.find("printer"))
        assert stored_client is not None
        # Key sets are compared by their content.
        assert stored_client == replace(client(), key_set=stored_client.key_set)
        assert stored_client.key_set.document() == client().key_set.document()
        assert not memory.write(lambda tx: tx.clients.register(client()))
        before = memory.read(lambda tx: revision(tx.db))
        old = ClientSecret("cs_1", Fingerprint("cs_1"), None)
        new = ClientSecret("cs_2", Fingerprint("cs_2"), None, "sealed")
        memory.write(lambda tx: tx.clients.add_secret("printer", old, NOW))
        memory.write(lambda tx: tx.clients.add_secret("printer", new, LATER))
        memory.write(lambda tx: tx.clients.expire_other_secrets("printer", "cs_2", LATER))
        stored_client = memory.read(lambda tx: tx.clients.find("printer"))
        assert stored_client is not None
        assert stored_client.secrets == (new, replace(old, expires_at=LATER))
        assert memory.read(lambda tx: revision(tx.db)) == before + 3
        assert memory.read(lambda tx: tx.clients.sealed_secrets()) == [("cs_2", "sealed")]
        assert memory.write(lambda tx: tx.clients.reseal_secret("cs_2", "sealed", "resealed"))
        assert memory.write(lambda tx: tx.clients.sweep_secrets(LATER, 10)) == 1
        for _ in "12":
            memory.write(lambda tx: tx.clients.count_query_credentials("printer", NOW))
        sighting = memory.read(lambda tx: tx.clients.query_credential_use("printer"))
        assert sighting is not None
        assert (sighting.requests, sighting.last_seen_at) == (2, NOW)

    def test_usernames_are_unique_after_folding(self, memory: Memory) -> None:
        """Case, width and ligatures do not distinguish names; a uid is never assigned again."""
        for taken in (user(7, "ADA"), user(8, "\uff21da"), user(1001, "other")):
            assert not memory.write(partial(_register, taken))
        for name in ("ada", "Ada", "ADA@EXAMPLE.COM"):
            assert memory.read(partial(_find_by_name, name)) == user()
        outcomes = memory.contend(lambda tx, n: tx.users.register(user(2_000 + n, "grace")))
        assert sorted(outcomes) == [False] * (THREADS - 1) + [True]

    def test_password_hash_is_renewed_only_if_unchanged(self, memory: Memory) -> None:
        """A concurrent change of the password wins."""
        memory.write(lambda tx: tx.users.set_password_hash(_ADA, "cr_1", "old", NOW))
        memory.write(lambda tx: tx.users.set_password_hash(_ADA, "cr_2", "new", NOW))
        assert not memory.write(lambda tx: tx.users.renew_password_hash(_ADA, "old", "renewed"))
        assert memory.write(lambda tx: tx.users.renew_password_hash(_ADA, "new", "renewed"))
        assert memory.read(lambda tx: tx.users.password_hash(_ADA)) == "renewed"
        assert not memory.read(lambda tx: tx.users.has_second_factor(_ADA))

    def test_session_ends_once(self, memory: Memory) -> None:
        """A session is found by the fingerprint of its cookie until it is deleted."""
        assert memory.read(lambda tx: tx.sessions.find(Fingerprint("cookie"))) == session()
        assert memory.read(lambda tx: tx.sessions.find_by_id("se_1")) == session()
        assert list(memory.read(lambda tx: tx.sessions.live_of(_ADA, NOW))) == [session()]
        memory.write(lambda tx: tx.sessions.touch("se_1", "192.0.2.1", LATER))
        outcomes = memory.contend(lambda tx, _: tx.sessions.end("se_1", NOW))
        assert sorted(outcomes) == [False] * (THREADS - 1) + [True]
        stored_session = memory.read(lambda tx: tx.sessions.find_by_id("se_1"))
        assert stored_session == replace(
            session(), last_seen_from="192.0.2.1", last_seen_at=LATER, ended_at=NOW
        )
        assert not memory.read(lambda tx: tx.sessions.live_of(_ADA, NOW))
        assert memory.write(lambda tx: tx.sessions.sweep(Instant(NOW + 600), 10)) == 1

    def test_participant_is_stored_while_session_is_live(self, memory: Memory) -> None:
        """A participant is added once, before the session ends, and deleted with it."""
        outcomes = memory.contend(lambda tx, _: tx.participants.add("se_1", "printer", NOW))
        assert outcomes == [True] * THREADS
        assert list(memory.read(lambda tx: tx.participants.of_session("se_1"))) == ["printer"]
        assert not memory.write(lambda tx: tx.participants.add("se_2", "printer", NOW))
        assert memory.write(lambda tx: tx.sessions.end("se_1", NOW))
        assert not memory.write(lambda tx: tx.participants.add("se_1", "printer", NOW))
        assert memory.write(lambda tx: tx.participants.sweep(Instant(NOW + 599), 10)) == 0
        assert memory.write(lambda tx: tx.participants.sweep(Instant(NOW + 600), 10)) == 1

    def test_participant_added_during_sign_out_is_notified(self, memory: Memory) -> None:
        """A participant is either notified of the session's end or was never added."""

        def work(tx: Transaction, number: int) -> tuple[str, ...] | bool:
            if number % 2:
                return tx.participants.add("se_1", f"app-{number}", NOW)
            return tuple(tx.participants.of_session("se_1")) if tx.sessions.end("se_1", NOW) else ()

        def everyone(tx: Transaction) -> None:
            for number in range(THREADS):
                tx.clients.register(client(f"app-{number}"))

        memory.write(everyone)
        outcomes = memory.contend(work)
        heard = {name for outcome in outcomes if isinstance(outcome, tuple) for name in outcome}
        assert heard == {f"app-{n}" for n, outcome in enumerate(outcomes) if outcome is True}

    def test_user_and_client_have_one_consent(self, memory: Memory) -> None:
        """A later consent replaces the earlier one."""
        first = Consent(_ADA, "printer", Scope.of("read"), "as it looked", NOW)
        second = replace(first, scope=Scope.of("read", "notes:read"), given_at=LATER)
        memory.write(lambda tx: tx.consents.save(first))
        memory.write(lambda tx: tx.consents.save(second))
        assert memory.read(lambda tx: tx.consents.find(_ADA, "printer")) == second
        assert list(memory.read(lambda tx: tx.consents.clients_of(_ADA, 9))) == ["printer"]
        memory.write(lambda tx: tx.consents.delete(_ADA, "printer"))
        assert memory.read(lambda tx: tx.consents.find(_ADA, "printer")) is None

    def test_one_process_creates_the_key_of_a_period(self, memory: Memory) -> None:
        """The other processes read the key; it is retired once."""
        outcomes = memory.contend(lambda tx, n: tx.signing_keys.issue(_key(f"kid {n}")))
        assert sorted(outcomes) == [False] * (THREADS - 1) + [True]
        (record,) = memory.read(lambda tx: tx.signing_keys.all(NOW))
        assert record == _key(f"kid {outcomes.index(True)}")
        assert record.state(NOW) is KeyState.NEXT
        assert memory.write(lambda tx: tx.signing_keys.activate(record.kid, NOW))
        outcomes = memory.contend(lambda tx, _: tx.signing_keys.retire(record.kid, NOW, LATER))
        assert sorted(outcomes) == [False] * (THREADS - 1) + [True]
        assert memory.write(lambda tx: tx.signing_keys.reseal(record.kid, "sealed", "resealed"))
        assert not memory.write(lambda tx: tx.signing_keys.reseal(record.kid, "sealed", "resealed"))
        assert not memory.read(lambda tx: tx.signing_keys.all(LATER))
        assert memory.write(lambda tx: tx.signing_keys.sweep(LATER, 10)) == 1

    def test_decision_records_are_bounded(self, memory: Memory) -> None:
        """The newest records of each kind stay, however many there are of another kind."""

        def refuse(tx: Transaction) -> None:
            for number in range(6):
                for client_id in (None, "printer"):
                    tx.decisions.add(_decision(number, client_id))

        memory.write(refuse)
        assert memory.write(lambda tx: tx.decisions.sweep_without_client(2, 3)) == 3
        assert memory.write(lambda tx: tx.decisions.sweep_without_client(2, 3)) == 1
        assert memory.write(lambda tx: tx.decisions.sweep_without_client(2, 3)) == 0
        assert memory.write(lambda tx: tx.decisions.sweep_beyond(5, 10)) == 1
        kept = [
            decision
            for number in range(6)
            for client_id in (None, "printer")
            if (decision := memory.read(partial(_find_decision, number, client_id)))
        ]
        assert [record.at - NOW for record in kept if record.client_id is None] == [4, 5]
        assert [record.at - NOW for record in kept if record.client_id] == [1, 2, 3, 4, 5]
        assert memory.write(lambda tx: tx.decisions.sweep(LATER, 10)) == len(kept)

    def test_event_is_committed_with_its_change(self, memory: Memory) -> None:
        """A transaction that raises leaves no event."""

        def change(tx: Transaction) -> None:
            tx.events.add(ClientEnabled("printer"), NOW)
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            memory.write(change)
        memory.write(lambda tx: tx.events.add(ClientEnabled("printer"), NOW))
        (event,) = memory.read(lambda tx: tx.events.page(Instant(0), "", 10))
        assert (event.name, event.client_id, event.uid) == ("client.enabled", "printer", None)
        assert memory.write(lambda tx: tx.events.sweep(NOW, 10)) == 0
        assert memory.write(lambda tx: tx.events.sweep(LATER, 10)) == 1


def _two_after(position: tuple[Instant, str, str], tx: Transaction) -> Sequence[RevocationRecord]:
    return tx.revocations.page(*position, 2)


def _register(new_user: User, tx: Transaction) -> bool:
    return tx.users.register(new_user)


def _find_by_name(name: str, tx: Transaction) -> User | None:
    return tx.users.find_by_name(name)


def _rotation(successor: str, presented: str = "first") -> Rotation:
    return Rotation("gr_1", Fingerprint(presented), Fingerprint(successor), "sealed", LATER)


def _decision(number: int, client_id: str | None) -> Decision:
    return Decision(
        reference=f"VK-{client_id}-{number}",
        at=Instant(NOW + number),
        endpoint="/oauth/token",
        code="invalid_grant",
        check="code.unknown",
        description="",
        expected="",
        received="",
        client_id=client_id,
        expires_at=LATER,
    )


def _find_decision(number: int, client_id: str | None, tx: Transaction) -> Decision | None:
    return tx.decisions.find(f"VK-{client_id}-{number}")


def _key(kid: str) -> SigningKeyRecord:
    return SigningKeyRecord(kid, "access", "ES256", 1, "{}", "sealed", NOW, LATER, None, None)
