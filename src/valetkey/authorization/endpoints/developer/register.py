"""/developer/new: register an app."""

import re
from dataclasses import dataclass

from valetkey.authorization.deeds.clients import Faults
from valetkey.authorization.deeds.developer.ownership import OwnApp, find_own
from valetkey.authorization.deeds.developer.portal import Barrier, Portal, fresh_client_id
from valetkey.authorization.deeds.developer.wish import AppKind, AppWish
from valetkey.authorization.endpoints.account.visit import Visit, posted, visit
from valetkey.authorization.endpoints.developer.app_form import AppForms, about_uris
from valetkey.authorization.endpoints.developer.member import head_of
from valetkey.authorization.model.event.actor import by_user
from valetkey.authorization.model.register.client import Client
from valetkey.authorization.pages.developer.head import AppHead
from valetkey.authorization.pages.developer.settings.form import AppForm
from valetkey.authorization.pages.developer.settings.pages import (
    ChooseKindPage,
    NewAppPage,
    RegisteredPage,
)
from valetkey.authorization.site.site import NEW_APP, Site
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.secret import Prefix, fresh_secret, same
from valetkey.web.exchange import Request, Response
from valetkey.web.form import Form, read_query

_CLIENT_ID = re.compile(r"app_[A-Za-z0-9_-]{22}", re.ASCII)
_FAULTY = 422


@dataclass(frozen=True, slots=True)
class RegisterEndpoint:
    """Which kind of app, then its form, then what it needs to begin."""

    site: Site
    portal: Portal

    @property
    def forms(self) -> AppForms:
        """How the form is read and made."""
        return AppForms(self.portal, self.site.scopes)

    async def get(self, request: Request) -> Response:
        """The kinds; the form of one of them."""
        seen = await visit(self.site, request)
        if isinstance(seen, Response):
            return seen
        user = seen.signed_in.user
        barrier = await self.site.store.read(lambda tx: self.portal.barrier(tx, user))
        kind = self._kind(read_query(request.query))
        if barrier is not None or kind is None:
            return self._choose(request, seen, barrier)
        form = self.forms.shown(AppWish(kind))
        return self._form(request, seen, form, fresh_client_id(self.site.random))

    async def post(self, request: Request) -> Response:
        """Register it, or say what is wrong; other buttons check the addresses, or add a row."""
        found = await posted(self.site, request)
        if isinstance(found, Response):
            return found
        seen, form = found
        kind, client_id = self._kind(form), form.get("client_id") or ""
        if kind is None or not self._is_ours(seen, client_id, form.get("mark") or ""):
            return self.site.goes_to(NEW_APP)
        wish = self.forms.read(form, kind)
        pressed = form.get("do")
        if pressed in {"check", "more"}:
            checked = pressed == "check"
            faults = about_uris(self.portal.faults(wish)) if checked else ()
            shown = self.forms.shown(wish, faults=faults, checked=checked, more=not checked)
            return self._form(request, seen, shown, client_id)
        return await self._register(request, seen, wish, client_id)

    async def _register(
        self, request: Request, seen: Visit, wish: AppWish, client_id: str
    ) -> Response:
        user, now = seen.signed_in.user, request.at
        secret = None
        if self.portal.needs_secret(wish):
            secret = fresh_secret(Prefix.CLIENT_SECRET, self.site.random)

        def work(tx: Transaction) -> OwnApp | Faults | Barrier | None:
            if find_own(tx, client_id, user.uid) is not None:
                return None
            made = self.portal.register(tx, user, wish, now, client_id=client_id, secret=secret)
            return find_own(tx, client_id, user.uid) if isinstance(made, Client) else made

        made = await self.site.store.write(work, done_by=by_user(user.uid))
        if made is None:
            # The same form again: a reload, or a second press. The secret was shown.
            return self.site.goes_to(AppHead(client_id, "").at())
        if isinstance(made, Barrier):
            return self._choose(request, seen, made)
        if isinstance(made, tuple):
            shown = self.forms.shown(wish, faults=made)
            return self._form(request, seen, shown, client_id, _FAULTY)
        shown_once = "" if secret is None else secret.reveal()
        page = RegisteredPage(head_of(made), self.site.issuer, shown_once)
        return self.site.page(request, page, user=user, headers=seen.headers)

    def _choose(self, request: Request, seen: Visit, barrier: Barrier | None) -> Response:
        page = ChooseKindPage(
            tuple(kind.value for kind in self.portal.kinds),
            "" if barrier is None else barrier.value,
            self.portal.settings.apps_per_person,
        )
        return self.site.page(request, page, user=seen.signed_in.user, headers=seen.headers)

    def _form(
        self, request: Request, seen: Visit, form: AppForm, client_id: str, status: int = 200
    ) -> Response:
        mark = self._mark(seen, client_id)
        page = NewAppPage(NEW_APP, seen.csrf, client_id, mark, form)
        return self.site.page(request, page, status, user=seen.signed_in.user, headers=seen.headers)

    def _kind(self, said: Form) -> AppKind | None:
        return next((kind for kind in self.portal.kinds if kind == said.get("kind")), None)

    def _mark(self, seen: Visit, client_id: str) -> str:
        about = f"{seen.signed_in.session.id} {client_id}"
        return self.site.keyring.fingerprint_key.of("new app", about)

    def _is_ours(self, seen: Visit, client_id: str, mark: str) -> bool:
        """Whether the id was drawn here: nobody chooses one that looks like another's."""
        return _CLIENT_ID.fullmatch(client_id) is not None and same(
            mark, self._mark(seen, client_id)
        )
