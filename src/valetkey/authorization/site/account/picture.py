"""/account/profile/picture: upload the picture of a profile, or remove it."""

from msgspec import Struct

from valetkey.authorization.actions.account.profile import PictureChange
from valetkey.authorization.actions.users import Accounts
from valetkey.authorization.layout.addresses import SIGN_IN
from valetkey.authorization.site.account.profile import (
    PICTURE,
    PROFILE,
    REMOVE_PICTURE,
    PictureFault,
    Profile,
)
from valetkey.authorization.site.page import (
    Act,
    Outcome,
    Page,
    SeeOther,
    SignedInRequest,
    signed_in,
)
from valetkey.fetch.image import Unusable, portrait
from valetkey.web.offload import Offload

LARGEST_UPLOAD = 10 * 1024 * 1024
"""Maximum size of an upload, in bytes."""

UPLOADS_WAITING = 8
"""Uploads that may wait for a process to decode them; more are refused for a moment."""

_FORM = 64 * 1024
"""What the rest of the form may take."""


class ProfilePicture(Struct, frozen=True):
    """The forms beside the picture on the profile page. `images` decodes uploads."""

    profile: Profile
    images: Offload

    def pages(self) -> tuple[Page[SignedInRequest], ...]:
        """The two forms."""
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
        except Unusable as failure:
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
