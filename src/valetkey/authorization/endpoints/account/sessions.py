"""/account/sessions: the browsers in which a person is signed in, and the end of that."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from valetkey.authorization.deeds.logout import SignOut
from valetkey.authorization.endpoints.account.visit import Visit, nothing_there, posted, visit
from valetkey.authorization.endpoints.visitor.site import SESSIONS, Site
from valetkey.authorization.model.session import Session
from valetkey.authorization.pages.account.sessions import Proof, SessionLine, SessionsPage
from valetkey.authorization.pages.visitor.when import When
from valetkey.authorization.protocol.claims import Method
from valetkey.authorization.sign_in.user_agent import browser_of
from valetkey.kernel.moment import Instant, later
from valetkey.web.exchange import Request, Response
from valetkey.web.form import read_query

_SHOWN = 100


@dataclass(frozen=True, slots=True)
class SessionsEndpoint:
    """Sessions, this one and the others."""

    site: Site
    deed: SignOut

    async def get(self, request: Request) -> Response:
        """The list, this one first. What it says has ended is true, whatever the address says."""
        seen = await visit(self.site, request)
        if isinstance(seen, Response):
            return seen
        ended = read_query(request.query).get("ended") or ""
        sessions = await self._sessions(seen, request.at)
        page = SessionsPage(
            action=SESSIONS,
            csrf=seen.csrf,
            sessions=tuple(_line(each, seen, request.at) for each in sessions),
            ended=await self._is_own(seen, ended) and all(each.id != ended for each in sessions),
            all_ended=ended == "others" and len(sessions) == 1,
        )
        return self.site.page(request, page, user=seen.signed_in.user, headers=seen.headers)

    async def post(self, request: Request) -> Response:
        """End one other session, or all others where none is named; their apps are told."""
        found = await posted(self.site, request)
        if isinstance(found, Response):
            return found
        seen, form = found
        only = form.get("session")
        if only is None:
            await self.deed.end_elsewhere(seen.signed_in.session, request.at)
            return self.site.goes_to(f"{SESSIONS}?ended=others")
        # This one ends at the sign-out page, which forgets the cookies as well.
        if only == seen.signed_in.session.id or not await self._is_own(seen, only):
            raise nothing_there("session")
        await self.deed.end_elsewhere(seen.signed_in.session, request.at, only=only)
        return self.site.goes_to(f"{SESSIONS}?ended={only}")

    async def _sessions(self, seen: Visit, now: Instant) -> Sequence[Session]:
        here, idle = seen.signed_in.session, self.site.sessions.idle
        found = await self.site.store.scan(lambda tx: tx.sessions.live_of(here.uid, now))
        others = [
            each for each in found if each.id != here.id and later(each.last_seen_at, idle) > now
        ]
        newest = sorted(others, key=lambda each: each.last_seen_at, reverse=True)
        return (here, *newest[:_SHOWN])

    async def _is_own(self, seen: Visit, session_id: str) -> bool:
        if not session_id.isascii() or not session_id.isprintable():
            return False
        session = await self.site.store.read(lambda tx: tx.sessions.find_by_id(session_id))
        return session is not None and session.uid == seen.signed_in.user.uid


def _line(session: Session, seen: Visit, now: Instant) -> SessionLine:
    browser, system = browser_of(session.user_agent)
    return SessionLine(
        id=session.id,
        browser=browser,
        system=system,
        since=When(session.created_at, now),
        last_seen=When(session.last_seen_at, now),
        here=session.id == seen.signed_in.session.id,
        proof=_proof(session.methods),
    )


def _proof(methods: Collection[str]) -> Proof:
    if Method.PASSWORD in methods:
        # A password is said alone, or beside what came after it.
        return Proof.PASSWORD if len(methods) == 1 else Proof.TWO_STEPS
    if Method.HARDWARE_KEY in methods or Method.SOFTWARE_KEY in methods:
        return Proof.PASSKEY
    return Proof.ELSEWHERE
