"""/account/profile: the claims of a user, the form to edit them, and the picture."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cache
from typing import ClassVar
from zoneinfo import available_timezones

from msgspec import Struct, field

from valetkey.authorization.actions.account.profile import (
    ATTRIBUTE,
    FIELDS,
    PictureChange,
    ProfileChange,
    ProfileFault,
    ProfileRejected,
    Submitted,
    attributes_typed,
    normalized,
    profile_of,
    profile_version,
)
from valetkey.authorization.actions.attributes import shown_attributes
from valetkey.authorization.actions.users import PICTURES, Accounts
from valetkey.authorization.authentication.browsers import Browsers
from valetkey.authorization.layout.addresses import ADDRESSES, SIGN_IN
from valetkey.authorization.layout.assets import CurrentBrand
from valetkey.authorization.layout.language import Language
from valetkey.authorization.model.user import Attribute, User
from valetkey.authorization.site.page import (
    Act,
    Outcome,
    Page,
    SeeOther,
    Show,
    SignedInRequest,
    signed_in,
)
from valetkey.authorization.storage.transaction import Store
from valetkey.fetch.image import UnusableImage, portrait
from valetkey.kernel.moment import minutes
from valetkey.kernel.text import translatable
from valetkey.web.offload import Offload

PROFILE = ADDRESSES["profile"]
PICTURE = f"{PROFILE}/picture"
REMOVE_PICTURE = f"{PICTURE}/remove"

_REGIONS = frozenset(
    {
        "Africa",
        "America",
        "Antarctica",
        "Asia",
        "Atlantic",
        "Australia",
        "Europe",
        "Indian",
        "Pacific",
    }
)
"""Regions of the time zone database; names outside them are aliases of the same zones."""

_LINES = ("street_address",)
_RECENT = minutes(5)
_BAD_REQUEST = 400
_CONFLICT = 409


class PictureFault(StrEnum):
    """The reason why an uploaded picture is rejected."""

    MISSING = "missing"  # no file was chosen
    LARGE = "large"  # too many bytes or pixels
    UNUSABLE = "unusable"  # not a picture, or not of a type that is accepted


class PictureForms(Struct, frozen=True):
    """The uploaded picture, and the addresses of the forms that replace and remove it."""

    #: Its address; "" for none.
    url: str = ""
    fault: PictureFault | None = None
    upload: str = PICTURE
    remove: str = REMOVE_PICTURE


class ProfilePage(Struct, frozen=True):
    """The context of profile.html: the stored fields, or those that were `typed`.

    Its form posts `csrf`, `mark` and every field. `stored` has the fields that another window
    changed in the meantime and that differ from what was typed.
    """

    template: ClassVar[str] = "account/profile.html"
    scripts: ClassVar[tuple[str, ...]] = ("times.js",)

    action: str
    #: The state from which the form was filled in.
    mark: str
    typed: Mapping[str, str]
    email: str
    email_verified: bool
    #: The choices of the menus: values and texts; time zones by region.
    languages: tuple[tuple[str, str], ...]
    zones: Mapping[str, Sequence[tuple[str, str]]]
    saved: bool = False
    faults: Mapping[str, ProfileFault] = field(default_factory=dict[str, ProfileFault])
    overtaken: bool = False
    stored: Mapping[str, str] = field(default_factory=dict[str, str])
    #: The declared attributes that the user may edit, by the field's name, and the others.
    editable: tuple[tuple[str, str], ...] = ()
    attributes: tuple[tuple[str, str], ...] = ()
    picture: PictureForms = PictureForms()


class ProfilePages(Struct, frozen=True):
    """Show and edit the profile of the signed-in user."""

    store: Store
    browsers: Browsers
    brands: CurrentBrand

    def pages(self) -> tuple[Page[SignedInRequest], ...]:
        """Return the page of this feature."""
        save = Act(self.save, opaque=_LINES)
        return (Page(PROFILE, signed_in, self.show, save, title=translatable("Profile"), nav=True),)

    async def show(self, request: SignedInRequest) -> Outcome:
        """Show the profile form. "Saved" is shown only shortly after a change."""
        recent = request.user.changed_at + _RECENT > request.now
        saved = request.query.get("saved") is not None and recent
        return await self._stored(request, saved=saved)

    async def refuse_picture(self, request: SignedInRequest, fault: PictureFault) -> Outcome:
        """Show the form with the reason why the uploaded picture was not stored."""
        return await self._stored(request, fault)

    async def save(self, request: SignedInRequest) -> Outcome:
        """Save the profile, or show each fault beside its field with the submitted values."""
        declared = await self._declared()
        names = (*FIELDS, *(name for name, _ in _editable(declared)))
        typed = {name: request.form.get(name) or "" for name in names}
        mark, session, now = request.form.get("mark") or "", request.session.id, request.now
        change = ProfileChange(
            Accounts(self.browsers.random),
            self.browsers.sessions,
            self.browsers.keyring.fingerprint_key,
            self.brands.current.name,
        )
        changed = await self.store.write(
            lambda tx: change.change(tx, session, typed, mark, now), done_by=request.actor
        )
        if isinstance(changed, User):
            return SeeOther(f"{PROFILE}?saved=1")
        if changed.user is None:
            return SeeOther(SIGN_IN)
        picture = await self._picture(changed.user)
        return self._form(request, changed.user, declared, typed, picture, changed)

    async def _stored(
        self, request: SignedInRequest, fault: PictureFault | None = None, *, saved: bool = False
    ) -> Show:
        user, declared = request.user, await self._declared()
        typed = profile_of(user) | attributes_typed(user, declared)
        picture = await self._picture(user, fault)
        return self._form(request, user, declared, typed, picture, saved=saved)

    async def _picture(self, user: User, fault: PictureFault | None = None) -> PictureForms:
        name = await self.store.read(lambda tx: tx.pictures.name_of(user.uid))
        return PictureForms(f"{PICTURES}/{name}" if name else "", fault)

    async def _declared(self) -> Sequence[Attribute]:
        return await self.store.read(lambda tx: tx.attributes())

    def _form(
        self,
        request: SignedInRequest,
        user: User,
        declared: Sequence[Attribute],
        typed: Submitted,
        picture: PictureForms,
        wrong: ProfileRejected | None = None,
        *,
        saved: bool = False,
    ) -> Show:
        overtaken = wrong is not None and wrong.is_stale
        stored = {}
        if overtaken:
            values = normalized(typed)
            stored = {name: text for name, text in profile_of(user).items() if text != values[name]}
        context = ProfilePage(
            action=PROFILE,
            mark=profile_version(user, self.browsers.keyring.fingerprint_key),
            typed=typed,
            email=user.email,
            email_verified=user.email_verified_at is not None,
            languages=_languages(self.brands.current.languages, typed["locale"]),
            zones=zone_menu(typed["zoneinfo"]),
            saved=saved,
            faults={} if wrong is None else {**wrong.faults},
            overtaken=overtaken,
            stored=stored,
            editable=_editable(declared),
            attributes=shown_attributes(
                user, [attribute for attribute in declared if not attribute.editable]
            ),
            picture=picture,
        )
        is_good = wrong is None and picture.fault is None
        return Show(context, 200 if is_good else _CONFLICT if overtaken else _BAD_REQUEST)


def _languages(offered: Sequence[Language], chosen: str) -> tuple[tuple[str, str], ...]:
    """Return the menu of languages: those of the server, and a stored one it does not offer."""
    menu = tuple((language.tag, language.name) for language in offered)
    return menu if not chosen or chosen in dict(menu) else (*menu, (chosen, chosen))


def zone_menu(chosen: str) -> Mapping[str, Sequence[tuple[str, str]]]:
    """Return the time zones by region, each with the text of its option; `chosen` is one."""
    zones = _every_zone()
    is_listed = any(chosen == value for region in zones.values() for value, _ in region)
    return zones if is_listed or not chosen else {**zones, "": ((chosen, chosen),)}


@cache
def _every_zone() -> Mapping[str, Sequence[tuple[str, str]]]:
    zones: dict[str, list[tuple[str, str]]] = {}
    for name in sorted(available_timezones()):
        region, _, city = name.partition("/")
        if region in _REGIONS and city:
            zones.setdefault(region, []).append((name, city.replace("_", " ")))
    return {**zones, "UTC": [("UTC", "UTC")]}


def _editable(declared: Sequence[Attribute]) -> tuple[tuple[str, str], ...]:
    return tuple(
        (f"{ATTRIBUTE}{attribute.name}", attribute.label or attribute.name)
        for attribute in declared
        if attribute.editable
    )


LARGEST_UPLOAD = 10 * 1024 * 1024
"""Maximum size of an upload, in bytes."""

UPLOADS_WAITING = 8
"""Uploads that may wait for a process to decode them; further ones are refused."""

_FORM = 64 * 1024
"""Bytes that the other fields of the form may take."""


class ProfilePicture(Struct, frozen=True):
    """The forms beside the picture on the profile page. `images` decodes uploads."""

    profile: ProfilePages
    images: Offload

    def pages(self) -> tuple[Page[SignedInRequest], ...]:
        """Return the forms that upload and remove a picture."""
        upload = Act(self.upload, upload=LARGEST_UPLOAD + _FORM)
        return (
            Page(PICTURE, signed_in, act=upload),
            Page(REMOVE_PICTURE, signed_in, act=Act(self.remove)),
        )

    async def upload(self, request: SignedInRequest) -> Outcome:
        """Store a copy of the picture, or show the reason beside the field."""
        file = request.form.file("file")
        if file is None:
            return await self.profile.refuse_picture(request, PictureFault.MISSING)
        if len(file.content) > LARGEST_UPLOAD:
            return await self.profile.refuse_picture(request, PictureFault.LARGE)
        try:
            image = await self.images.run(portrait, file.content)
        except UnusableImage as failure:
            large = failure.check in {"image.pixels", "image.large", "image.scans"}
            fault = PictureFault.LARGE if large else PictureFault.UNUSABLE
            return await self.profile.refuse_picture(request, fault)
        change, session, now = self._change(), request.session.id, request.now
        user = await self.profile.store.write(
            lambda tx: change.upload(tx, session, image, now), done_by=request.actor
        )
        return SeeOther(SIGN_IN if user is None else f"{PROFILE}?saved=1")

    async def remove(self, request: SignedInRequest) -> Outcome:
        """Remove the uploaded picture."""
        change, session, now = self._change(), request.session.id, request.now
        user = await self.profile.store.write(
            lambda tx: change.remove(tx, session, now), done_by=request.actor
        )
        return SeeOther(SIGN_IN if user is None else f"{PROFILE}?saved=1")

    def _change(self) -> PictureChange:
        browsers = self.profile.browsers
        return PictureChange(
            Accounts(browsers.random), browsers.sessions, browsers.issuer, browsers.random
        )
