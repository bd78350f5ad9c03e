"""/account/sessions: list the user's signed-in browsers, and sign out of them."""

from collections.abc import Collection, Sequence
from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.actions.logout import SignOut
from valetkey.authorization.authentication.browsers import browser_of
from valetkey.authorization.layout.addresses import SESSIONS
from valetkey.authorization.layout.contexts import ProofMethod, SessionLine, When
from valetkey.authorization.model.user import Session
from valetkey.authorization.protocol.claims import Amr
from valetkey.authorization.site.page import (
    Act,
    Outcome,
    Page,
    SeeOther,
    Show,
    SignedInRequest,
    not_found,
    signed_in,
)
from valetkey.authorization.storage.transaction import Store
from valetkey.config.settings import SessionSettings
from valetkey.kernel.moment import Instant
from valetkey.kernel.text import translatable

_SHOWN = 100


class SessionsPage(Struct, frozen=True):
    """The context of sessions.html, this session first.

    Its form posts `csrf`, and `session` to end only that one.
    """

    template: ClassVar[str] = "account/sessions.html"
    scripts: ClassVar[tuple[str, ...]] = ("times.js",)

    action: str
    sessions: tuple[SessionLine, ...]
    #: Whether one of them was just ended.
    ended: bool = False
    #: Whether all others were just ended.
    all_ended: bool = False


class SessionPages(Struct, frozen=True):
    """List the sessions of an account and end others."""

    store: Store
    sessions: SessionSettings
    sign_out: SignOut

    def pages(self) -> tuple[Page[SignedInRequest], ...]:
        """Return the page of this feature."""
        title = translatable("Sessions")
        return (Page(SESSIONS, signed_in, self.show, Act(self.end), title=title, nav=True),)

    async def show(self, request: SignedInRequest) -> Outcome:
        """Show the list of signed-in browsers.

        "Signed out" is shown only if the session has ended.
        """
        ended = request.query.get("ended") or ""
        sessions = await self._sessions(request)
        return Show(
            SessionsPage(
                action=SESSIONS,
                sessions=tuple(_line(session, request) for session in sessions),
                ended=await self._is_own(request, ended)
                and all(session.id != ended for session in sessions),
                all_ended=ended == "others" and len(sessions) == 1,
            )
        )

    async def end(self, request: SignedInRequest) -> Outcome:
        """End the named session, or all others; their apps are notified."""
        only = request.form.get("session")
        if only is None:
            await self.sign_out.end_other_sessions(request.session, request.now)
            return SeeOther(f"{SESSIONS}?ended=others")
        # The current session ends at the sign-out page, which clears the cookies as well.
        if only == request.session.id or not await self._is_own(request, only):
            raise not_found("session")
        await self.sign_out.end_other_sessions(request.session, request.now, only=only)
        return SeeOther(f"{SESSIONS}?ended={only}")

    async def _sessions(self, request: SignedInRequest) -> Sequence[Session]:
        here, now, idle = request.session, request.now, self.sessions.idle
        seen_after = Instant(now - idle)
        active_sessions = await self.store.scan(
            lambda tx: tx.sessions.active_of(here.uid, seen_after, now)
        )
        others = [session for session in active_sessions if session.id != here.id]
        newest = sorted(others, key=lambda session: session.last_seen_at, reverse=True)
        return (here, *newest[:_SHOWN])

    async def _is_own(self, request: SignedInRequest, session_id: str) -> bool:
        if not session_id.isascii() or not session_id.isprintable():
            return False
        session = await self.store.read(lambda tx: tx.sessions.find_by_id(session_id))
        return session is not None and session.uid == request.user.uid


def _line(session: Session, request: SignedInRequest) -> SessionLine:
    browser, system = browser_of(session.user_agent)
    return SessionLine(
        id=session.id,
        browser=browser,
        system=system,
        since=When(session.created_at, request.now),
        last_seen=When(session.last_seen_at, request.now),
        here=session.id == request.session.id,
        proof=_proof(session.methods),
        signed_in_from=session.signed_in_from,
        last_seen_from=session.last_seen_from,
    )


def _proof(methods: Collection[str]) -> ProofMethod:
    if Amr.PASSWORD in methods:
        # The second factor is listed beside the password.
        return ProofMethod.PASSWORD if len(methods) == 1 else ProofMethod.TWO_STEPS
    if Amr.HARDWARE_KEY in methods or Amr.SOFTWARE_KEY in methods:
        return ProofMethod.PASSKEY
    return ProofMethod.ELSEWHERE
