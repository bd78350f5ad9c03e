"""/developer/apps/{client_id}/settings: change an app, and take old ways from it."""

from collections.abc import Iterator
from dataclasses import dataclass

from valetkey.authorization.deeds.clients import Faults
from valetkey.authorization.deeds.developer.ownership import OwnApp, find_own
from valetkey.authorization.deeds.developer.portal import Portal
from valetkey.authorization.deeds.developer.version import changed_since, version_of
from valetkey.authorization.deeds.developer.wish import AppKind, kind_of, wish_of
from valetkey.authorization.endpoints.account.visit import Visit, nothing_there, posted, visit
from valetkey.authorization.endpoints.developer.app_form import AppForms, about_uris
from valetkey.authorization.endpoints.developer.member import head_of, own_app
from valetkey.authorization.model.event.actor import by_user
from valetkey.authorization.model.register.client import Client, GrantTypeName
from valetkey.authorization.pages.developer.settings.form import AppForm
from valetkey.authorization.pages.developer.settings.pages import (
    DropLegacyPage,
    LegacySwitch,
    SettingsPage,
)
from valetkey.authorization.site.site import Site
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import minutes
from valetkey.web.exchange import Request, Response
from valetkey.web.form import Form, read_query

_FAULTY, _OUTDATED = 422, 409
_OF_OLD = (GrantTypeName.IMPLICIT, GrantTypeName.PASSWORD)
_NEWS = minutes(5)


@dataclass(frozen=True, slots=True)
class _Outdated:
    """Others changed the app since the form was made."""

    app: OwnApp
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SettingsEndpoint:
    """The form, and the switches below it."""

    site: Site
    portal: Portal

    @property
    def forms(self) -> AppForms:
        """How the form is read and made."""
        return AppForms(self.portal, self.site.scopes)

    async def get(self, request: Request) -> Response:
        """The form, as the app is."""
        seen = await visit(self.site, request)
        if isinstance(seen, Response):
            return seen
        app = await own_app(self.site, request, seen)
        client = app.client
        lately = client.changed_at > request.at - _NEWS
        saved = lately and "saved" in read_query(request.query)
        form = self.forms.shown(wish_of(client), before=client)
        return self._page(request, seen, app, form, saved=saved)

    async def post(self, request: Request) -> Response:
        """Save it, or say what is wrong; other buttons check the addresses, or add a row."""
        found = await posted(self.site, request)
        if isinstance(found, Response):
            return found
        seen, form = found
        app = await own_app(self.site, request, seen)
        client = app.client
        wish = self.forms.read(form, kind_of(client), client)
        version, pressed = form.get("version") or "", form.get("do")
        if pressed in {"check", "more"}:
            checked = pressed == "check"
            faults = about_uris(self.portal.faults(wish, client)) if checked else ()
            shown = self.forms.shown(
                wish, before=client, faults=faults, checked=checked, more=not checked
            )
            return self._page(request, seen, app, shown, version=version)
        uid, now = seen.signed_in.user.uid, request.at

        def work(tx: Transaction) -> Client | Faults | _Outdated | None:
            held = tx.clients.find_to_change(client.id)
            current = None if held is None else find_own(tx, client.id, uid)
            if current is None:
                return None
            if parts := changed_since(current.client, version):
                return _Outdated(current, parts)
            return self.portal.change(tx, current.client, wish, now)

        done = await self.site.store.write(work, done_by=by_user(uid))
        if done is None:
            raise nothing_there("app")
        if isinstance(done, _Outdated):
            shown = self.forms.shown(wish, before=done.app.client)
            return self._page(request, seen, done.app, shown, _OUTDATED, others=done.parts)
        if isinstance(done, tuple):
            shown = self.forms.shown(wish, before=client, faults=done)
            return self._page(request, seen, app, shown, _FAULTY, version=version)
        return self.site.goes_to(f"{head_of(app).at('settings')}?saved=1")

    async def ask_to_drop(self, request: Request) -> Response:
        """The question before a grant type of old is turned off."""
        seen = await visit(self.site, request)
        if isinstance(seen, Response):
            return seen
        app = await own_app(self.site, request, seen)
        name = _of_old(app, read_query(request.query))
        head = head_of(app)
        page = DropLegacyPage(head, head.at("legacy"), seen.csrf, name.value)
        return self.site.page(request, page, user=seen.signed_in.user, headers=seen.headers)

    async def drop(self, request: Request) -> Response:
        """Turn it off."""
        found = await posted(self.site, request)
        if isinstance(found, Response):
            return found
        seen, form = found
        app = await own_app(self.site, request, seen)
        name, uid, now = _of_old(app, form), seen.signed_in.user.uid, request.at

        def work(tx: Transaction) -> Client | Faults | None:
            held = tx.clients.find_to_change(app.client.id)
            if held is None or tx.members.find(held.id, uid) is None:
                return None
            return self.portal.drop_grant_type(tx, held, name, now)

        done = await self.site.store.write(work, done_by=by_user(uid))
        if done is None:
            raise nothing_there("app")
        if isinstance(done, tuple):
            # It is all that the app has: what else it does is to be said first.
            shown = self.forms.shown(wish_of(app.client), before=app.client, faults=done)
            return self._page(request, seen, app, shown, _FAULTY)
        return self.site.goes_to(f"{head_of(app).at('settings')}?saved=1")

    def _page(
        self,
        request: Request,
        seen: Visit,
        app: OwnApp,
        form: AppForm,
        status: int = 200,
        *,
        version: str = "",
        saved: bool = False,
        others: tuple[str, ...] = (),
    ) -> Response:
        head = head_of(app)
        page = SettingsPage(
            app=head,
            action=head.at("settings"),
            csrf=seen.csrf,
            version=version or version_of(app.client),
            form=form,
            legacy=tuple(_switches(app.client)),
            saved=saved,
            verified=app.client.verified_at is not None,
            others=others,
        )
        return self.site.page(request, page, status, user=seen.signed_in.user, headers=seen.headers)


def _of_old(app: OwnApp, said: Form) -> GrantTypeName:
    """The grant type that is to go. Refused with `not_found` where the app has it not."""
    for name in _OF_OLD:
        if name == said.get("grant_type") and name in app.client.grant_types:
            return name
    raise nothing_there("app")


def _switches(client: Client) -> Iterator[LegacySwitch]:
    kind = kind_of(client)
    if kind is not AppKind.MACHINE:
        for name in _OF_OLD:
            if name is GrantTypeName.IMPLICIT or not client.is_public:
                yield LegacySwitch(name.value, on=client.may_use(name))
        if not client.is_public:
            yield LegacySwitch("no_pkce", on=not client.needs_pkce)
    if client.has_secret:
        yield LegacySwitch("query", on=client.profile.token_parameters_in_query)
