"""/admin/groups/{group}/edit: rename a group, move it, change its description."""

from collections.abc import Mapping

from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import Permission
from valetkey.authorization.operations.groups.groups import CHANGE_GROUP, READ_GROUP
from valetkey.authorization.operations.operation import InvalidInput, Services, call_of, value_of
from valetkey.authorization.operations.records import tag_of
from valetkey.authorization.operations.user_records import GroupChange, GroupShown
from valetkey.authorization.protocol.register.client_metadata import MetadataError
from valetkey.authorization.site.admin.administrator import AdminRequest, administrator
from valetkey.authorization.site.admin.groups.groups import WORDS, group_address
from valetkey.authorization.site.admin.input_form import (
    Faults,
    InputFormPage,
    as_text,
    input_fields,
    read_input,
    typed,
)
from valetkey.authorization.site.page import Act, Outcome, Page, SeeOther, Show
from valetkey.kernel.preconditions import FAILED, preconditions
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.words import translatable

EDIT = "/admin/groups/{group}/edit"

_WORDS = {
    **WORDS,
    "name": (
        WORDS["name"][0],
        translatable(
            "Apps receive the new name in the next token, and apps that require the group require"
            " its new name. Claims that choose groups by a prefix are not changed."
        ),
    ),
    "parent": (
        WORDS["parent"][0],
        translatable("Members of this group are members of that group too. Empty: none."),
    ),
}
_BAD_REQUEST = 400


class GroupForm(Struct, frozen=True):
    """The form with what a group is."""

    services: Services

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """The form."""
        may, title = administrator(Permission.PEOPLE), translatable("Edit group")
        return (Page(EDIT, may, self.ask, Act(self.change), title=title),)

    async def ask(self, request: AdminRequest) -> Outcome:
        """Show the form."""
        group = await self._look(request)
        values = {name: as_text(getattr(group, name)) for name in _WORDS}
        return _form(request, group, values, tag_of(group))

    async def change(self, request: AdminRequest) -> Outcome:
        """Change it, unless it was changed since the form was shown."""
        group, form = await self._look(request), request.form
        values, tag = typed(form, _WORDS), form.get("etag") or ""
        path = {"group": request.arguments["group"]}
        try:
            body = read_input(GroupChange, _WORDS, form)
            call = call_of(self.services, CHANGE_GROUP, request.actor, request.now, path, body)
            seen = preconditions((tag or '""',), ())
            changed = await value_of(replace(call, preconditions=seen), GroupShown)
        except InvalidInput as invalid:
            return _form(request, group, values, tag, invalid.faults)
        except Refused as refused:
            if refused.refusal is FAILED:
                return _form(request, group, values, tag_of(group), stale=True)
            if refused.refusal.code is not ErrorCode.CONFLICT:
                raise
            fault = MetadataError("name", refused.refusal.description)
            return _form(request, group, values, tag, (fault,))
        return SeeOther(f"{group_address(changed.name)}?done=edit")

    async def _look(self, request: AdminRequest) -> GroupShown:
        path = {"group": request.arguments["group"]}
        call = call_of(self.services, READ_GROUP, request.actor, request.now, path)
        return await value_of(call, GroupShown)


def _form(
    request: AdminRequest,
    group: GroupShown,
    values: Mapping[str, str],
    tag: str,
    faults: Faults = (),
    *,
    stale: bool = False,
) -> Outcome:
    place = group_address(group.name)
    page = InputFormPage(
        action=f"{place}/edit",
        back=place,
        above=group.name,
        csrf=request.csrf,
        title=translatable("Edit group"),
        submit=translatable("Save changes"),
        fields=input_fields(GroupChange, _WORDS, values, faults),
        etag=tag,
        stale=stale,
    )
    return Show(page, _BAD_REQUEST if faults or stale else 200)
