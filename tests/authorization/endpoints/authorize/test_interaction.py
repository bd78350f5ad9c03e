"""What may go wrong between question and answer: other browsers, delays, repetition."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.authorization.endpoints.authorize.openid import EVERYTHING, ask
from tests.authorization.endpoints.visitor.looks import is_page
from tests.support.harness import NOON, Harness
from tests.support.plain_browser import usual
from tests.support.visitors import ALICE, WEB, run
from valetkey.authorization.authentication.session import end_session
from valetkey.authorization.endpoints.authorize.authorize import Authorize, answer
from valetkey.authorization.endpoints.authorize.checks import ClientError, check_interaction
from valetkey.authorization.endpoints.authorize.pending import Pending
from valetkey.authorization.model.event.event import DoneBy
from valetkey.authorization.model.user import Session
from valetkey.authorization.protocol.interaction import Interaction, ShowSignIn
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.database.engine import T
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.scope import Scope
from valetkey.web.exchange import Headers, Request


def test_az_19_interaction_is_refused_in_another_browser(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice, mallory = it.browser(), it.browser()
        begun = await alice.get("/oauth/authorize", **usual())
        stranger = await mallory.get(begun.location)
        is_page(stranger, 403)
        await mallory.ask()  # with a browser cookie of her own
        page = await alice.get(begun.location)
        is_page(await mallory.get(begun.location), 403)
        is_page(await mallory.submit(page, "sign-in", username="bob", password="x"), 403)
        redirect = await alice.submit(
            page, "sign-in", username="alice", password="correct horse battery staple"
        )
        is_page(await mallory.get(redirect.location), 403)
        consent = await alice.follow(redirect)
        is_page(await mallory.submit(consent, "allow", decision="allow"), 403)
        assert "code" in (await alice.allow(consent)).told

    run(tmp_path, story)


@pytest.mark.parametrize("sealed", ["x", "v1.AAAA", "", "%00", "v1." + "A" * 6_000])
def test_invalid_interaction_parameter_is_refused(tmp_path: Path, sealed: str) -> None:
    async def story(it: Harness) -> None:
        for path in ("/oauth/authorize", "/oauth/consent"):
            is_page(await it.browser().get(f"{path}?interaction={sealed}"), 400)

    run(tmp_path, story)


def test_parallel_redirects_of_one_decision_issue_one_code(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        alice = it.browser()
        page = await alice.sign_in(await alice.ask())
        decided = await alice.submit(page, "allow", decision="allow")
        answers = await asyncio.gather(*(alice.get(decided.location) for _ in range(16)))
        assert [answer.status for answer in answers].count(303) == 1
        assert [answer.status for answer in answers].count(400) == 15
        late = next(answer for answer in answers if answer.status == 400)
        assert "already answered" in late.body
        # Neither does Back, with the other decision.
        is_page(await alice.deny(page), 400)
        assert (await it.events()).count("code.issued") == 1

    run(tmp_path, story, database_url)


def test_account_disabled_after_consent_gets_no_code(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = it.browser()
        page = await alice.sign_in(await alice.ask())
        decided = await alice.submit(page, "allow", decision="allow")
        await it.store.write(lambda tx: tx.users.change(replace(ALICE, disabled_at=NOON)))
        answer = await alice.follow(decided)
        assert "password" in answer.body
        assert "code.issued" not in await it.events()

    run(tmp_path, story)


def test_posted_request_not_yet_bound_to_a_browser_is_refused_by_pages(
    tmp_path: Path,
) -> None:
    async def story(it: Harness) -> None:
        alice = it.browser()
        posted = await alice.post("/oauth/authorize", usual())
        loose = posted.location.partition("?")[2]
        for page in ("sign-in", "consent"):
            is_page(await alice.get(f"/oauth/{page}?{loose}"), 400)

    run(tmp_path, story)


async def pending_of(it: Harness, **parameters: str) -> Pending:
    """A request that alice may have answered at once."""
    alice = it.browser()
    await alice.allow(await alice.sign_in(await alice.ask(prompt="consent")))
    cookie = "; ".join(f"{name}={value}" for name, value in alice.cookies.items())
    interaction = Interaction("in_x", usual(**parameters), "", it.clock.now)
    request = Request(
        "GET",
        "/oauth/authorize",
        headers=Headers(((b"cookie", cookie.encode()),)),
        at=it.clock.now,
    )
    pending = await check_interaction(it.server, request, interaction)
    assert isinstance(pending, Pending)
    assert pending.signed_in is not None
    return pending


def test_session_that_ended_meanwhile_requires_sign_in(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        now = it.clock.now
        loud, silent = await pending_of(it), await pending_of(it, prompt="none")
        for pending in (loud, silent):
            assert pending.signed_in is not None
            session_id = pending.signed_in.session.id
            await it.store.write(lambda tx, ended=session_id: tx.sessions.end(ended, now))  # type: ignore[misc]
        assert isinstance(await answer(it.server, loud, now), ShowSignIn)
        outcome = await answer(it.server, silent, now)
        assert isinstance(outcome, ClientError)
        assert outcome.refusal.code is ErrorCode.LOGIN_REQUIRED
        last = await pending_of(it)
        await it.change(replace(WEB, scope=Scope.of("write")))
        outcome = await answer(it.server, last, now)
        assert isinstance(outcome, ClientError)
        assert outcome.refusal.code is ErrorCode.INVALID_SCOPE
        await it.change(replace(WEB, disabled_at=now))
        with pytest.raises(Refused):
            await answer(it.server, last, now)

    run(tmp_path, story)


def test_max_age_that_passed_meanwhile_requires_sign_in(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = it.browser()
        page = await alice.sign_in(await alice.ask(max_age="60"))
        decided = await alice.submit(page, "allow", decision="allow")
        assert "code" in (await alice.get(decided.location)).told
        # Asked within the transaction, after the reading said yes.
        pending = await pending_of(it, max_age="60")
        assert isinstance(await answer(it.server, pending, Instant(it.clock.now + 61)), ShowSignIn)

    run(tmp_path, story)


@dataclass(frozen=True, slots=True)
class _EndsFirst(Store):
    """A store in which every session ends before anything else is written."""

    async def write(self, work: Callable[[Transaction], T], *, done_by: DoneBy | None = None) -> T:
        def ended(tx: Transaction) -> T:
            for session in tx.sessions.live_of(ALICE.uid, NOON):
                tx.sessions.end(session.id, NOON)
            return work(tx)

        return await self.engine.write(lambda db: ended(Transaction(db, self.random)))


def test_sign_out_during_the_transaction_redirects_to_sign_in(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = it.browser()
        await alice.allow(await alice.sign_in(await alice.ask()))
        site = replace(it.server, store=_EndsFirst(it.store.engine, it.store.random))
        cookie = "; ".join(f"{name}={value}" for name, value in alice.cookies.items())
        request = Request(
            "GET",
            "/oauth/authorize",
            urlencode(usual()),
            headers=Headers(((b"cookie", cookie.encode()),)),
            at=it.clock.now,
        )
        response = await Authorize(site, it.authorize.minter).get(request)
        assert dict(response.headers)["location"].startswith("/oauth/sign-in?interaction=")

    run(tmp_path, story)


def test_parallel_sign_out_either_notifies_the_app_or_issues_nothing(
    tmp_path: Path,
    database_url: str,
) -> None:
    async def story(it: Harness) -> None:
        await it.register(EVERYTHING)
        for number in range(8):
            alice = it.browser()
            parameters = {"response_type": "code id_token", "prompt": "consent"}
            page = await alice.sign_in(await ask(alice, nonce=f"n{number}", **parameters))
            live = await it.store.read(lambda tx: tx.sessions.live_of(ALICE.uid, it.clock.now))
            (session,) = live

            def end(tx: Transaction, session: Session = session) -> Sequence[str]:
                assert end_session(tx, session, it.clock.now, "signed_out")
                return tx.participants.of_session(session.id)

            decided = await alice.submit(page, "allow", decision="allow")
            last, told_of = await asyncio.gather(alice.follow(decided), it.store.write(end))
            issued = "id_token=" in last.location
            # Whoever ended the session heard of the client, or the client never heard of it.
            assert list(told_of) == (["oidc1"] if issued else [])
            if not issued:
                assert last.status == 400 or 'id="sign-in"' in last.body

    run(tmp_path, story, database_url)
