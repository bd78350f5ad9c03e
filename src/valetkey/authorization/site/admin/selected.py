"""One operation on each of several entries of a list, after a confirmation."""

from collections.abc import Callable, Sequence
from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import ActorPermissions, require
from valetkey.authorization.operations.operation import Services, call_of
from valetkey.authorization.site.admin.administrator import AdminRequest
from valetkey.authorization.site.admin.confirm import MISMATCH, Buttons, Confirmed
from valetkey.authorization.site.page import Act, Outcome, Page, Show
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.refusal import Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.url import path_segment

SHOWN = 50
"""Maximum number of entries on a page of a list, and of those selected at once."""

_BAD_REQUEST = 400


class SelectedEntry(Struct, frozen=True):
    """A selected entry; after the operation, `fault` says why it was refused, "" if it was done.

    `hint` distinguishes it from others of its name. `url` is "" for one that was deleted.
    """

    value: str
    name: str
    url: str
    hint: str = ""
    fault: str = ""


class SelectedPage(Struct, frozen=True):
    """The confirmation, or with `is_done` the results.

    Its form posts `csrf`, each value as `field`, `confirmed`, and what has to be typed.
    """

    template: ClassVar[str] = "admin/selected.html"

    action: str
    #: The address and the title of the list.
    back: str
    above: str
    title: str
    text: str
    field: str
    entries: tuple[SelectedEntry, ...]
    danger: bool = False
    is_done: bool = False
    #: The number of entries for which it was refused.
    failed: int = 0
    #: What has to be typed if the operation cannot be undone, and why it was not accepted.
    confirms: str = ""
    fault: str = ""


class Selection(Struct, frozen=True):
    """The entries of one list that can be selected, and the operations on several of them.

    `path` is above the confirmations, `back` and `above` are the address and title of the list.
    `field` has the value of each selected entry, which is the argument `argument` of the
    operations; `find` returns those entries that exist, in the order in which they are changed.
    """

    path: str
    back: str
    above: str
    field: str
    argument: str
    buttons: Buttons
    find: Callable[[Transaction, Sequence[str]], Sequence[SelectedEntry]]

    def offers(self, permissions: ActorPermissions) -> tuple[tuple[str, str], ...]:
        """Return title and address of the operations that the role allows."""
        return tuple(
            (confirmed.button.title, f"{self.path}/{slug}")
            for slug, confirmed in self.buttons.by_slug.items()
            if permissions.allow(confirmed.operation.permission)
        )


class SelectedPages(Struct, frozen=True):
    """The confirmation for the entries that were checked in a list, and the operation on each.

    Each entry is a transaction of its own: what is refused for one is done for the others.
    """

    services: Services
    selection: Selection

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """Return the confirmation, whose form leads to the results."""
        selection = self.selection
        act = Act(self.run, multiple=(selection.field,))
        requires = selection.buttons.requirement
        path = f"{selection.path}/{{act}}"
        return (Page(path, requires, self.show_empty, act, under=selection.back),)

    async def show_empty(self, request: AdminRequest) -> Outcome:
        """Show that nothing is selected: a change of the language leads here."""
        return Show(self._page(request, ()))

    async def run(self, request: AdminRequest) -> Outcome:
        """Ask before an operation on several entries; if confirmed, run it and show the results."""
        confirmed, form = self.selection.buttons.confirmed(request.request), request.form
        values = tuple(dict.fromkeys(form.all(self.selection.field)[:SHOWN]))

        def find_entries(tx: Transaction) -> Sequence[SelectedEntry]:
            require(tx, request.actor, confirmed.operation.permission)
            return self.selection.find(tx, values)

        selected = await self.services.store.read(find_entries)
        page = self._page(request, selected)
        if form.get("confirmed") is None or not selected:
            return Show(page)
        if page.confirms and (form.get("confirmation") or "").strip() != page.confirms:
            return Show(replace(page, fault=MISMATCH), _BAD_REQUEST)
        results = [await self._run(request, confirmed, entry) for entry in selected]
        failed = sum(bool(result.fault) for result in results)
        return Show(replace(page, entries=tuple(results), is_done=True, failed=failed))

    async def _run(
        self, request: AdminRequest, confirmed: Confirmed, selected: SelectedEntry
    ) -> SelectedEntry:
        operation = confirmed.operation
        arguments = {self.selection.argument: path_segment(selected.value)}
        try:
            await operation.run(
                call_of(self.services, operation, request.actor, request.now, arguments)
            )
        except Refused as refused:
            return replace(selected, fault=refused.refusal.text)
        return replace(selected, url="") if confirmed.button.slug == "delete" else selected

    def _page(self, request: AdminRequest, entries: Sequence[SelectedEntry]) -> SelectedPage:
        selection = self.selection
        button = selection.buttons.confirmed(request.request).button
        return SelectedPage(
            request.request.path,
            selection.back,
            selection.above,
            button.title,
            button.text,
            selection.field,
            tuple(entries),
            button.danger,
            confirms=f"{len(entries)}" if button.irreversible else "",
        )
