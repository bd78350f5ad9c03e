"""/developer/apps/{client_id}/delete: delete an app after its name was typed."""

from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.actions.developer.portal import Portal
from valetkey.authorization.actions.developer.team import find_own
from valetkey.authorization.layout.addresses import DEVELOPER
from valetkey.authorization.site.developer.app import (
    APP,
    AppHead,
    AppRequest,
    confirmed_at,
    owner_of_app,
)
from valetkey.authorization.site.page import (
    Act,
    AnyPage,
    Outcome,
    Page,
    SeeOther,
    Show,
    Visit,
    not_found,
)
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.kernel.words import translatable

_UNPROCESSABLE = 422


class DeleteAppPage(Struct, frozen=True):
    """The context of delete.html. Its form posts `csrf` and `name`.

    `people` are connected, by `authorizations` that are valid.
    """

    template: ClassVar[str] = "developer/delete.html"

    app: AppHead
    action: str
    csrf: str
    people: int
    authorizations: int
    typed: str = ""
    wrong: bool = False


class DeleteApp(Struct, frozen=True):
    """Delete an app. Owners only."""

    store: Store
    portal: Portal

    def pages(self) -> tuple[AnyPage, ...]:
        """The page of this feature."""
        act, title = Act(self.delete), translatable("Delete this app")
        under = f"{APP}/settings"
        return (Page(f"{APP}/delete", _may_delete, self.show, act, title=title, under=under),)

    async def show(self, request: AppRequest) -> Outcome:
        """Show how many users the deletion would disconnect."""
        return await self._form(request)

    async def delete(self, request: AppRequest) -> Outcome:
        """Delete it if its name was typed."""
        app, uid, now = request.app, request.user.uid, request.now
        typed = (request.form.get("name") or "").strip()
        if typed != app.name:
            return await self._form(request, typed=typed, wrong=True)

        def delete_if_owner(tx: Transaction) -> bool:
            held = tx.clients.find_to_change(app.client.id)
            current = None if held is None else find_own(tx, app.client.id, uid)
            if held is None or current is None or not current.membership.owns:
                return False
            self.portal.delete(tx, held, now)
            return True

        if not await self.store.write(delete_if_owner, done_by=request.actor):
            raise not_found("app")
        return SeeOther(f"{DEVELOPER}?deleted=1")

    async def _form(self, request: AppRequest, *, typed: str = "", wrong: bool = False) -> Show:
        client_id, now, head = request.client.id, request.now, request.head
        reach = await self.store.scan(lambda tx: tx.grants.reach(client_id, now))
        context = DeleteAppPage(
            head,
            head.at("delete"),
            request.csrf,
            people=reach.people,
            authorizations=reach.authorizations,
            typed=typed,
            wrong=wrong,
        )
        return Show(context, _UNPROCESSABLE if wrong else 200)


async def _may_delete(visit: Visit) -> AppRequest:
    return await confirmed_at(visit, await owner_of_app(visit), "delete")
