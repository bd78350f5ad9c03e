"""/account/profile: what people say of themselves."""

from dataclasses import dataclass

from valetkey.authorization.deeds.account.profile import (
    FIELDS,
    NotWritten,
    ProfileChange,
    Typed,
    mark_of,
    profile_of,
    tidied,
)
from valetkey.authorization.deeds.users import AccountKeeper
from valetkey.authorization.endpoints.account.addresses import PROFILE
from valetkey.authorization.endpoints.account.visit import Visit, posted, visit
from valetkey.authorization.endpoints.visitor.site import SIGN_IN, Site
from valetkey.authorization.model.account.user import User
from valetkey.authorization.model.event.actor import by_user
from valetkey.authorization.pages.account.person.profile import ProfilePage
from valetkey.kernel.moment import minutes
from valetkey.web.exchange import Request, Response
from valetkey.web.form import read_query

_LINES = ("street_address",)
_NEWS = minutes(5)
_BAD_REQUEST = 400
_CONFLICT = 409


@dataclass(frozen=True, slots=True)
class ProfileEndpoint:
    """The profile of who is signed in."""

    site: Site

    async def get(self, request: Request) -> Response:
        """The form. That it was saved is said only while it is news."""
        seen = await visit(self.site, request)
        if isinstance(seen, Response):
            return seen
        user = seen.signed_in.user
        lately = user.changed_at + _NEWS > request.at
        saved = read_query(request.query).get("saved") is not None and lately
        return self._page(request, seen, user, profile_of(user), saved=saved)

    async def post(self, request: Request) -> Response:
        """Write it, or show what went wrong beside the field, with what was typed."""
        found = await posted(self.site, request, opaque=_LINES)
        if isinstance(found, Response):
            return found
        seen, form = found
        typed = {name: form.get(name) or "" for name in FIELDS}
        mark, session, now = form.get("mark") or "", seen.signed_in.session.id, request.at
        site = self.site
        deed = ProfileChange(
            AccountKeeper(site.random),
            site.sessions,
            site.keyring.fingerprint_key,
            site.brand.name,
        )
        changed = await site.store.write(
            lambda tx: deed.change(tx, session, typed, mark, now),
            done_by=by_user(seen.signed_in.user.uid),
        )
        if isinstance(changed, User):
            return site.goes_to(f"{PROFILE}?saved=1")
        if changed.user is None:
            return site.goes_to(SIGN_IN)
        return self._page(request, seen, changed.user, typed, changed)

    def _page(
        self,
        request: Request,
        seen: Visit,
        user: User,
        typed: Typed,
        wrong: NotWritten | None = None,
        *,
        saved: bool = False,
    ) -> Response:
        overtaken = wrong is not None and wrong.overtaken
        stored = {}
        if overtaken:
            said = tidied(typed)
            stored = {name: text for name, text in profile_of(user).items() if text != said[name]}
        page = ProfilePage(
            action=PROFILE,
            csrf=seen.csrf,
            mark=mark_of(user, self.site.keyring.fingerprint_key),
            typed=typed,
            email=user.email,
            email_verified=user.email_verified_at is not None,
            saved=saved,
            faults={} if wrong is None else {**wrong.faults},
            overtaken=overtaken,
            stored=stored,
        )
        status = 200 if wrong is None else _CONFLICT if overtaken else _BAD_REQUEST
        return self.site.page(request, page, status, user=user, headers=seen.headers)
