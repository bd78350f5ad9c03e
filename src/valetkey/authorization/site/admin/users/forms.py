"""/admin/users/new and /admin/users/{uid}/edit: create an account, edit its profile."""

from collections.abc import Mapping

from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import Permission, require
from valetkey.authorization.actions.admin.search import is_gone
from valetkey.authorization.model.user import Role, User, uid_of
from valetkey.authorization.operations.operation import Services, tag_of
from valetkey.authorization.operations.roles import ROLE_WORDS
from valetkey.authorization.operations.user_records import (
    PasswordLink,
    UserAnswer,
    UserMade,
    shown,
)
from valetkey.authorization.operations.users import CHANGE_USER, LINK_WORDS, MAKE_USER
from valetkey.authorization.site.admin.administrator import (
    AdminRequest,
    actor_of,
    administrator,
    page_not_found,
)
from valetkey.authorization.site.admin.input_fields import Choices, Words, as_text
from valetkey.authorization.site.admin.input_form import FormSubject, InputForm
from valetkey.authorization.site.admin.references import GROUPS
from valetkey.authorization.site.admin.users.users import NEW, USERS, user_address
from valetkey.authorization.site.page import Outcome, Page, SeeOther, Show
from valetkey.authorization.site.shown_once import NewSecretPage, ShownValue
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.text import translatable

EDIT = "/admin/users/{uid}/edit"

_TITLE = translatable("Users")
_USERNAME = translatable("Username")
_EMAIL = translatable("Email")
_NAME = translatable("Name")

NEW_WORDS: Words = {
    "username": (_USERNAME, translatable("Without spaces and @. The user signs in with it.")),
    "email": (_EMAIL, translatable("The user can sign in with it as well.")),
    "name": (_NAME, translatable("Apps show it if the user allows them to see the profile.")),
    "email_verified": (
        translatable("The email address is verified"),
        translatable("Only if you know that this is so. A link sent by email verifies it."),
    ),
    "groups": (translatable("Groups"), ""),
    "role": (
        translatable("Role"),
        translatable("What the user may do in this console. Most users have no role."),
    ),
    "password_link": (
        translatable("Set-password link"),
        translatable("The link lets the user choose a password. It works once, for 7 days."),
    ),
}

_PROFILE = translatable("Profile")
_ADDRESS = translatable("Postal address")

EDIT_WORDS: Words = {
    "username": (
        _USERNAME,
        translatable("The user signs in with it. The old one no longer works."),
    ),
    "email": (
        _EMAIL,
        translatable(
            "A new address counts as unverified until the user confirms it. The old address is "
            "notified, with a link that undoes the change for a week."
        ),
    ),
    "name": (_NAME, ""),
    "given_name": (translatable("Given name"), ""),
    "middle_name": (translatable("Middle name"), ""),
    "family_name": (translatable("Family name"), ""),
    "nickname": (translatable("Nickname"), ""),
    "birthdate": (
        translatable("Birthday"),
        translatable("Year, month, day: 1990-12-31. The year alone is fine."),
    ),
    "gender": (translatable("Gender"), ""),
    "phone_number": (
        translatable("Phone"),
        translatable("With country code: +44 20 7946 0000."),
    ),
    "website": (translatable("Website"), ""),
    "profile": (translatable("Profile page"), ""),
    "picture": (translatable("Picture URL"), ""),
    "zoneinfo": (translatable("Time zone"), translatable("Such as Europe/London.")),
    "locale": (translatable("Language"), translatable("A language tag, such as en-GB.")),
    "address.formatted": (
        translatable("Address as on an envelope"),
        "",
    ),
    "address.street_address": (translatable("Street and number"), ""),
    "address.postal_code": (translatable("Postal code"), ""),
    "address.locality": (translatable("City"), ""),
    "address.region": (translatable("Region"), ""),
    "address.country": (translatable("Country"), ""),
}
EDIT_GROUPS = {
    name: _ADDRESS if name.startswith("address.") else _PROFILE
    for name in EDIT_WORDS
    if name not in {"username", "email", "name"}
}

NEW_CHOICES: Mapping[str, Choices] = {
    "role": (
        ("", translatable("No role")),
        *((role.value, ROLE_WORDS[role]) for role in Role),
    ),
    "password_link": (
        *((how.value, text) for how, text in LINK_WORDS.items()),
        ("", translatable("None: the user signs in another way")),
    ),
}


class UserForms(Struct, frozen=True):
    """Create an account, and edit the profile of one."""

    services: Services

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """Return both forms."""
        return (
            InputForm(
                NEW,
                administrator(Permission.USERS, recent=True),
                actor_of,
                self.services,
                MAKE_USER,
                UserMade,
                NEW_WORDS,
                translatable("Invite a user"),
                self._new,
                self._made,
                submit=translatable("Invite"),
                choices=NEW_CHOICES,
                spaced=("groups",),
                references={"groups": GROUPS},
            ).page(),
            InputForm(
                EDIT,
                administrator(Permission.USERS, recent=True),
                actor_of,
                self.services,
                CHANGE_USER,
                UserAnswer,
                EDIT_WORDS,
                translatable("Edit profile"),
                self._edited,
                self._changed,
                groups=EDIT_GROUPS,
                multiline=("address.formatted", "address.street_address"),
            ).page(),
        )

    async def _new(self, request: AdminRequest) -> FormSubject:
        may_assign = request.permissions.allow(Permission.ROLES)
        sends = self.services.outbox.is_on
        how = PasswordLink.EMAIL if sends else PasswordLink.SHOW
        return FormSubject(
            USERS,
            _TITLE,
            values={"password_link": how.value},
            without=() if may_assign else ("role",),
        )

    async def _made(self, request: AdminRequest, made: UserMade) -> Outcome:
        user = made.record
        address = f"{USERS}/{user.uid}"
        if made.password_link is None:
            emailed = request.form.get("password_link") == PasswordLink.EMAIL
            return SeeOther(f"{address}?done={'invited' if emailed else 'new'}")
        return Show(password_link_page(address, user.name or user.username, made.password_link))

    async def _edited(self, request: AdminRequest) -> FormSubject:
        uid, actor = uid_of(request.arguments["uid"]), request.actor

        def read_state(tx: Transaction) -> User:
            user = None if uid is None else tx.users.find(uid)
            if user is None or is_gone(user):
                raise page_not_found()
            require(tx, actor, Permission.USERS, user)
            return user

        user = await self.services.store.scan(read_state)
        record = shown(user)
        values = {name: _text(record, name) for name in EDIT_WORDS}
        return FormSubject(
            user_address(user.uid), user.name or user.username, values=values, etag=tag_of(record)
        )

    async def _changed(self, _request: AdminRequest, done: UserAnswer) -> Outcome:
        return SeeOther(f"{USERS}/{done.record.uid}?done=edit")


def password_link_page(address: str, name: str, link: str) -> NewSecretPage:
    """Return the page that shows the set-password link of a user, once."""
    return NewSecretPage(
        title=translatable("Set-password link"),
        back=address,
        above=name,
        copied=(
            ShownValue("password-link", link, translatable("Copy the link"), translatable("Link")),
        ),
        before=(
            translatable("The link is shown only once. Copy it now, and pass it on to the user."),
        ),
        after=(
            translatable(
                "It works once, for 7 days. Anyone with the link can choose the password: send it "
                "only to the user."
            ),
        ),
    )


def _text(record: object, name: str) -> str:
    value = record
    for part in name.split("."):
        value = getattr(value, part)
    return as_text(value)
