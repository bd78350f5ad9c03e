"""/admin/clients/selected/{act}: one operation on each of several apps, after a confirmation."""

from collections.abc import Sequence
from typing import ClassVar
from urllib.parse import quote

from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import require
from valetkey.authorization.model.register.client import RESOURCE_SERVER, Client
from valetkey.authorization.operations.operation import Services, call_of
from valetkey.authorization.site.admin.administrator import AdminRequest
from valetkey.authorization.site.admin.clients.clients import (
    BULK,
    CLIENTS,
    SELECTED,
    SHOWN,
    client_address,
)
from valetkey.authorization.site.admin.confirm import MISMATCH, Buttons, Confirmed
from valetkey.authorization.site.page import Act, Outcome, Page, Show
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.refusal import Refused
from valetkey.kernel.replace import replace
from valetkey.web.form import Form

_BAD_REQUEST = 400


class SelectedApp(Struct, frozen=True):
    """A selected app; after the operation, `fault` says why it was refused, "" if it was done."""

    client_id: str
    name: str
    url: str
    fault: str = ""


class SelectedAppsPage(Struct, frozen=True):
    """The confirmation, or with `is_done` the results.

    Its form posts `csrf`, each `client`, `confirmed`, and what has to be typed.
    """

    template: ClassVar[str] = "admin/clients/selected.html"

    action: str
    back: str
    title: str
    text: str
    apps: tuple[SelectedApp, ...]
    danger: bool = False
    is_done: bool = False
    #: What has to be typed if the operation cannot be undone, and why it was not accepted.
    confirms: str = ""
    fault: str = ""


_BUTTONS = Buttons(
    {name: it for name, it in Buttons.below("/clients/{client_id}").by_slug.items() if name in BULK}
)


class SelectedApps(Struct, frozen=True):
    """The confirmation for the apps that were checked in the list, and the operation on each.

    Each app is a transaction of its own: what is refused for one is done for the others.
    """

    services: Services

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """Return the confirmation, whose form leads to the results."""
        act = Act(self.run, multiple=("client",))
        return (Page(f"{SELECTED}/{{act}}", _BUTTONS.requirement, self.show_empty, act),)

    async def show_empty(self, request: AdminRequest) -> Outcome:
        """Show that no apps are selected: a change of the language leads here."""
        return Show(self._page(request, ()))

    async def run(self, request: AdminRequest) -> Outcome:
        """Ask before an operation on several apps; if confirmed, run it and show the results."""
        confirmed, form = _BUTTONS.of(request.request), request.form
        selected = await self._selected(request, form)
        page = self._page(request, selected)
        if form.get("confirmed") is None or not selected:
            return Show(page)
        if page.confirms and (form.get("confirmation") or "").strip() != page.confirms:
            return Show(replace(page, fault=MISMATCH), _BAD_REQUEST)
        results = [await self._run(request, confirmed, each) for each in selected]
        return Show(replace(page, apps=tuple(results), is_done=True))

    async def _run(
        self, request: AdminRequest, confirmed: Confirmed, selected: SelectedApp
    ) -> SelectedApp:
        arguments = {"client_id": quote(selected.client_id, safe="")}
        call = call_of(self.services, confirmed.operation, request.actor, request.now, arguments)
        try:
            await confirmed.operation.run(call)
        except Refused as refused:
            return replace(selected, fault=refused.refusal.description)
        return selected

    async def _selected(self, request: AdminRequest, form: Form) -> Sequence[SelectedApp]:
        """Return the apps of a form that exist, at most one page of the list."""
        permission = _BUTTONS.of(request.request).operation.permission
        ids = dict.fromkeys(form.all("client")[:SHOWN])

        def read_state(tx: Transaction) -> Sequence[Client]:
            require(tx, request.actor, permission)
            found = (tx.clients.find(each) for each in ids if each != RESOURCE_SERVER)
            return [client for client in found if client is not None]

        clients = await self.services.store.read(read_state)
        return [
            SelectedApp(each.id, each.name or each.id, client_address(each.id)) for each in clients
        ]

    def _page(self, request: AdminRequest, apps: Sequence[SelectedApp]) -> SelectedAppsPage:
        button = _BUTTONS.of(request.request).button
        return SelectedAppsPage(
            request.request.path,
            CLIENTS,
            button.title,
            button.text,
            tuple(apps),
            button.danger,
            confirms=f"{len(apps)}" if button.irreversible else "",
        )
