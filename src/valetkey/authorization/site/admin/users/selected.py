"""/admin/users/selected/{act}: one operation on each of several users, after a confirmation."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import require
from valetkey.authorization.actions.admin.search import is_gone, uid_of
from valetkey.authorization.model.account.user import Uid, User
from valetkey.authorization.operations.operation import Services, call_of
from valetkey.authorization.site.admin.administrator import AdminRequest
from valetkey.authorization.site.admin.confirm import Buttons, Confirmed
from valetkey.authorization.site.admin.users.users import BULK, SELECTED, SHOWN, user_address
from valetkey.authorization.site.page import Act, Outcome, Page, Show
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.refusal import Refused
from valetkey.web.form import Form


class SelectedUser(Struct, frozen=True):
    """A selected user; after the operation, `fault` says why it was refused, "" if it was done."""

    uid: int
    name: str
    username: str
    url: str
    fault: str = ""


class SelectedPage(Struct, frozen=True):
    """The confirmation, or with `is_done` the results.

    Its form posts `csrf`, each `uid` and `confirmed`.
    """

    template: ClassVar[str] = "admin/users/selected.html"

    action: str
    back: str
    title: str
    text: str
    users: tuple[SelectedUser, ...]
    danger: bool = False
    is_done: bool = False
    #: For how many users it was refused.
    failed: int = 0


_BUTTONS = Buttons(
    {name: each for name, each in Buttons.below("/users/{uid}").by_slug.items() if name in BULK}
)


class SelectedUsers(Struct, frozen=True):
    """The confirmation for the users that were checked in the list, and the operation on each.

    Each user is a transaction of their own: what is refused for one is done for the others.
    """

    services: Services

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """Return the confirmation, whose form leads to the results."""
        act = Act(self.run, multiple=("uid",))
        return (Page(f"{SELECTED}/{{act}}", _BUTTONS.requirement, self.show_empty, act),)

    async def show_empty(self, request: AdminRequest) -> Outcome:
        """Show that no users are selected: a change of the language leads here."""
        return Show(self._page(request, ()))

    async def run(self, request: AdminRequest) -> Outcome:
        """Ask before an operation on several users; if confirmed, run it and show the results."""
        confirmed = _BUTTONS.of(request.request)
        selected = await self._selected(request, request.form)
        if request.form.get("confirmed") is None:
            return Show(self._page(request, selected))
        results = [await self._run(request, confirmed, each) for each in selected]
        return Show(self._page(request, results, is_done=True))

    async def _run(
        self, request: AdminRequest, confirmed: Confirmed, selected: SelectedUser
    ) -> SelectedUser:
        arguments = {"uid": str(selected.uid)}
        call = call_of(self.services, confirmed.operation, request.actor, request.now, arguments)
        try:
            await confirmed.operation.run(call)
        except Refused as refused:
            fault = refused.refusal.description
            return SelectedUser(selected.uid, selected.name, selected.username, selected.url, fault)
        return selected

    async def _selected(self, request: AdminRequest, form: Form) -> Sequence[SelectedUser]:
        """Return the users of a form that exist, at most one page of the list."""
        permission = _BUTTONS.of(request.request).operation.permission
        uids = [uid for text in form.all("uid")[:SHOWN] if (uid := uid_of(text)) is not None]

        def read_state(tx: Transaction) -> Sequence[User]:
            require(tx, request.actor, permission)
            return list(_existing(tx, dict.fromkeys(uids)))

        found = await self.services.store.read(read_state)
        return [
            SelectedUser(
                user.uid, user.name or user.username, user.username, user_address(user.uid)
            )
            for user in found
        ]

    def _page(
        self, request: AdminRequest, users: Sequence[SelectedUser], *, is_done: bool = False
    ) -> SelectedPage:
        button = _BUTTONS.of(request.request).button
        return SelectedPage(
            request.request.path,
            SELECTED.rpartition("/")[0],
            button.title,
            button.text,
            tuple(users),
            button.danger,
            is_done,
            sum(bool(each.fault) for each in users),
        )


def _existing(tx: Transaction, uids: dict[Uid, None]) -> Iterator[User]:
    for uid in uids:
        user = tx.users.find(uid)
        if user is not None and not is_gone(user):
            yield user
