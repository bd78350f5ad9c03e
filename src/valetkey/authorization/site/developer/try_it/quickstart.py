"""/developer/apps/{client_id}/quickstart: a complete app in the stack of the developer's choice."""

from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.actions.developer.quickstart import STACKS, Quickstart, Quickstarts
from valetkey.authorization.site.developer.app import APP, AppHead, AppRequest, member_of_app
from valetkey.authorization.site.page import AnyPage, Outcome, Page, Show
from valetkey.kernel.words import translatable


class QuickstartPage(Struct, frozen=True):
    """The context of quickstart.html; without a quickstart, the app has none.

    `tabs` has the address and the label of each stack, and whether it is the one shown.
    """

    template: ClassVar[str] = "developer/try_it/quickstart.html"
    scripts: ClassVar[tuple[str, ...]] = ("copy.js",)

    app: AppHead
    tabs: tuple[tuple[str, str, bool], ...] = ()
    quickstart: Quickstart | None = None


class QuickstartPages(Struct, frozen=True):
    """Show the quickstarts of an app."""

    quickstarts: Quickstarts

    def pages(self) -> tuple[AnyPage, ...]:
        """The page of this feature."""
        title = translatable("Quickstart")
        return (Page(f"{APP}/quickstart", member_of_app, self.show, title=title, nav=True),)

    async def show(self, request: AppRequest) -> Outcome:
        """Show the quickstart for the stack that `in` names, or for the first one."""
        head, client = request.head, request.client
        names = self.quickstarts.stacks_of(client)
        if not names:
            return Show(QuickstartPage(head))
        wanted = request.query.get("in") or ""
        chosen = wanted if wanted in names else names[0]
        place = head.at("quickstart")
        return Show(
            QuickstartPage(
                head,
                tuple((f"{place}?in={name}", STACKS[name].label, name == chosen) for name in names),
                self.quickstarts.of(client, chosen),
            )
        )
