"""Rotation as a state machine: whatever comes in whatever order, a grant has one live token."""

import asyncio
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar, cast

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from valetkey.authorization.app.foundation import SCHEMA
from valetkey.authorization.grant_types import refresh_token
from valetkey.authorization.grant_types.grant_type import PreparedSecrets, TokenRequest
from valetkey.authorization.grant_types.refresh_token import fingerprint_of, format_refresh_token
from valetkey.authorization.model.client import CLIENT_SCOPE, Client, ClientType
from valetkey.authorization.model.event.event import USUAL_ACTOR
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.authorization.tokens.apis import ApiDirectory, default_api
from valetkey.authorization.tokens.claims import TokenClaims
from valetkey.authorization.tokens.issue import Granted, TokenPolicy, TokenSecrets
from valetkey.authorization.tokens.read import AccessTokenReader
from valetkey.database.connect import connect
from valetkey.database.migrate import migrate
from valetkey.kernel.keyring import Keyring
from valetkey.kernel.moment import Instant, days, hours, minutes, seconds
from valetkey.kernel.refusal import Refusal
from valetkey.kernel.replace import replace
from valetkey.kernel.runtime import SYSTEM
from valetkey.kernel.secret import Prefix, fresh_secret
from valetkey.testing.storage_conformance import NOW, client, grant, user
from valetkey.web.body import Form

T = TypeVar("T")

WINDOW = seconds(30)
IDLE = minutes(5)
LIFE = minutes(10)
GRANT = "gr_1"
_POLICY = TokenPolicy(
    "https://api.example", minutes(1), hours(1), minutes(10), IDLE, days(180), WINDOW
)
_DEFAULT = default_api(_POLICY.audience, "API", {}, CLIENT_SCOPE)
# No token but the refresh token is read.
_READER = cast("AccessTokenReader", None)
_KEY = Keyring.fresh(SYSTEM.random).fingerprint_key


class Rotation(RuleBasedStateMachine):
    """The model: the tokens of one grant in order, when the last was given, whether it lives."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.store = Store(connect("sqlite:///v.db", directory=self.directory), SYSTEM.random)
        self.loop = asyncio.new_event_loop()
        self.now = NOW
        self.tokens: list[str] = []
        self.rotated_at = self.used_at = NOW
        self.alive = True

    def teardown(self) -> None:
        self.loop.run_until_complete(self.store.engine.close())
        self.loop.close()
        shutil.rmtree(self.directory)

    def _write(self, work: Callable[[Transaction], T]) -> T:
        return self.loop.run_until_complete(self.store.write(work, done_by=USUAL_ACTOR))

    @initialize(rotates=st.booleans(), kind=st.sampled_from(ClientType))
    def issue(self, rotates: bool, kind: ClientType) -> None:
        """A grant with its first refresh token, of a client that rotates or does not."""
        self.loop.run_until_complete(migrate(self.store.engine, SCHEMA))
        self.client: Client = replace(client(), type=kind, rotates_refresh_token=rotates)
        first = fresh_secret(Prefix.REFRESH_TOKEN, SYSTEM.random)
        begun = replace(
            grant(GRANT),
            expires_at=Instant(NOW + LIFE),
            refresh_expires_at=Instant(NOW + IDLE),
            refresh_print=fingerprint_of(_KEY, first.reveal(), GRANT),
        )

        def work(tx: Transaction) -> None:
            tx.clients.register(self.client)
            tx.users.register(user())
            tx.grants.issue(begun)

        self._write(work)
        self.tokens = [format_refresh_token(first, GRANT).reveal()]

    def _present(self, token: str) -> str | None:
        """What the server gives in return: a refresh token, or nothing."""
        request = TokenRequest(
            client=self.client,
            parameters=Form({"refresh_token": token}),
            fresh=PreparedSecrets(TokenSecrets(SYSTEM.random), SYSTEM.random),
            policy=_POLICY,
            apis=ApiDirectory(self.store, lambda: -1, _DEFAULT),
            fingerprints=_KEY,
            address="",
            now=self.now,
            reader=_READER,
            claims=TokenClaims(self.store, _DEFAULT),
        )
        outcome = self._write(lambda tx: refresh_token.redeem(tx, request))
        if isinstance(outcome, Refusal):
            return None
        assert isinstance(outcome, Granted)
        assert outcome.refresh_token is not None
        return outcome.refresh_token.reveal()

    def _ended(self) -> bool:
        return not self.alive or self.now >= NOW + LIFE

    @rule()
    def use_the_current_token(self) -> None:
        token = self._present(self.tokens[-1])
        if self._ended() or self.now >= self.used_at + IDLE:
            assert token is None
            return
        self.used_at = self.now
        if not (self.client.is_public or self.client.rotates_refresh_token):
            assert token == self.tokens[-1]
            return
        assert token is not None
        assert token not in self.tokens
        self.tokens.append(token)
        self.rotated_at = self.now

    @precondition(lambda self: len(self.tokens) > 1)
    @rule(until=st.sampled_from([0, WINDOW - 1, WINDOW, WINDOW + 1, IDLE - 1, IDLE]))
    def repeat_the_previous_token(self, until: int) -> None:
        self.now = max(self.now, Instant(self.rotated_at + until))
        token = self._present(self.tokens[-2])
        longest = WINDOW if self.client.is_public else IDLE
        if not self._ended() and self.now < self.rotated_at + longest:
            assert token == self.tokens[-1]
        else:
            assert token is None
            self.alive = False

    @precondition(lambda self: len(self.tokens) > 2)
    @rule(back=st.integers(3, 10))
    def replay_an_older_token(self, back: int) -> None:
        older = min(back, len(self.tokens))
        assert self._present(self.tokens[-older]) is None
        # The first one is as earlier versions made it: without proof, and forgotten by now.
        self.alive = self.alive and older == len(self.tokens)

    @rule()
    def invent_a_token(self) -> None:
        invented = format_refresh_token(fresh_secret(Prefix.REFRESH_TOKEN, SYSTEM.random), GRANT)
        assert self._present(invented.reveal()) is None

    @rule()
    def revoke(self) -> None:
        self._write(lambda tx: tx.grants.revoke(GRANT, self.now, "test"))
        self.alive = False

    @rule(by=st.sampled_from([1, 29, 30, 31, 299, 300]))
    def wait(self, by: int) -> None:
        self.now = Instant(self.now + by)

    @invariant()
    def at_most_one_token_is_live(self) -> None:
        """What the database would exchange: the newest token while the grant lives, or nothing."""
        if not self.tokens:
            return
        record = self.loop.run_until_complete(self.store.read(lambda tx: tx.grants.find(GRANT)))
        assert record is not None
        assert (record.grant.revoked_at is None) == self.alive or self.now >= NOW + LIFE
        prints = [fingerprint_of(_KEY, token.partition(".")[0], GRANT) for token in self.tokens]
        assert record.grant.refresh_print == prints[-1]
        assert len(set(prints)) == len(prints)


TestRotation = Rotation.TestCase
TestRotation.settings = settings(
    max_examples=60,
    stateful_step_count=20,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
