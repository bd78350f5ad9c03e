"""The picture of a profile: what is stored of an upload, who sees it, and when it is gone."""

import io
import json
from base64 import b64decode
from pathlib import Path

import pytest
from PIL import Image

from tests.authorization.endpoints.account.people import knows, signed_in
from tests.support.harness import NOON, Harness
from tests.support.plain_browser import Answer, Browser
from tests.support.visitors import ALICE, run
from valetkey.authorization.actions.account.removal import ExportOrigin, export
from valetkey.authorization.actions.bulk_revocation import empty_account
from valetkey.authorization.model.user import User
from valetkey.authorization.protocol.claims import user_claims
from valetkey.authorization.site.account.profile import LARGEST_UPLOAD

PATH = "/account/profile"
UPLOAD, REMOVE = f"{PATH}/picture", f"{PATH}/picture/remove"
LINE = "----WebKitFormBoundary7MA4YWxkTrZu0gW"
KIND = {"content-type": f"multipart/form-data; boundary={LINE}"}
MARKER = b"48.8584 N 2.2945 E"
SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'


def photograph(size: tuple[int, int] = (400, 300), kind: str = "JPEG") -> bytes:
    """A picture that tells in its EXIF where it was taken."""
    exif = Image.Exif()
    exif[0x010E] = MARKER.decode()
    written = io.BytesIO()
    Image.new("RGB", size, (220, 40, 40)).save(written, kind, exif=exif)
    assert MARKER in written.getvalue()
    return written.getvalue()


def multipart(csrf: str, content: bytes | None, name: str = "me.jpg") -> bytes:
    field = f'--{LINE}\r\nContent-Disposition: form-data; name="csrf"\r\n\r\n{csrf}\r\n'
    head = (
        f'--{LINE}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
        "Content-Type: image/jpeg\r\n\r\n"
    )
    file = b"" if content is None else head.encode() + content + b"\r\n"
    return field.encode() + file + f"--{LINE}--\r\n".encode()


async def upload(browser: Browser, content: bytes | None, name: str = "me.jpg") -> Answer:
    action, fields = (await browser.get(PATH)).form("upload-picture")
    assert action == UPLOAD
    return await browser.send("POST", UPLOAD, multipart(fields["csrf"][0], content, name), KIND)


async def remove(browser: Browser) -> Answer:
    _, fields = (await browser.get(PATH)).form("upload-picture")
    return await browser.post(REMOVE, {"csrf": fields["csrf"]})


async def alice(it: Harness) -> User:
    user = await it.store.read(lambda tx: tx.users.find(ALICE.uid))
    assert user is not None
    return user


async def path_of_picture(it: Harness) -> str:
    url = (await alice(it)).claims.picture
    assert url.startswith("https://auth.example/pictures/"), url
    return url.removeprefix("https://auth.example")


def test_picture_is_reencoded_shown_and_exported(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        browser = await signed_in(it)
        answer = await upload(browser, photograph())
        assert answer.location == f"{PATH}?saved=1", answer.body
        path = await path_of_picture(it)
        page = await browser.get(PATH)
        assert f'src="{path}"' in page.body
        assert knows(page, "Remove picture")
        assert f'src="{path}"' in (await browser.get("/account/sessions")).body
        user = await alice(it)
        assert user_claims(user, {"picture"}) == {"picture": f"https://auth.example{path}"}

        image = await it.browser().get(path)
        assert (image.status, image.header("content-type")) == (200, "image/webp")
        assert image.header("cache-control") == "public, max-age=3600"
        assert image.header("cross-origin-resource-policy") == "cross-origin"
        assert image.header("content-security-policy") == "default-src 'none'; sandbox"
        assert image.header("x-content-type-options") == "nosniff"
        data = image.body.encode(errors="surrogateescape")
        assert MARKER not in data
        with Image.open(io.BytesIO(data)) as shown:
            assert (shown.format, shown.size) == ("WEBP", (256, 256))
            # Cropped, not letterboxed.
            assert shown.convert("RGBA").getpixel((128, 2))[3] == 255  # type: ignore[index]

        origin = ExportOrigin("Valetkey", "https://auth.example", "")
        file = await it.store.write(lambda tx: export(tx, user, origin, NOON))
        account = json.loads(file)
        assert account["picture"]["media_type"] == "image/webp"
        assert b64decode(account["picture"]["base64"]) == data
        assert account["profile"]["picture"] == f"https://auth.example{path}"

    run(tmp_path, story, database_url)


def test_replaced_or_removed_picture_is_not_found(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        browser = await signed_in(it)
        await upload(browser, photograph())
        first = await path_of_picture(it)
        await upload(browser, photograph(kind="PNG"))
        second = await path_of_picture(it)
        assert (await browser.get(first)).status == 404
        assert (await browser.get(second)).status == 200

        assert (await remove(browser)).location == f"{PATH}?saved=1"
        assert (await browser.get(second)).status == 404
        assert (await alice(it)).claims.picture == ""

        await upload(browser, photograph())
        third = await path_of_picture(it)
        page = await browser.get(PATH)
        _, fields = page.form("save")
        typed = {name: value[0] for name, value in fields.items()}
        elsewhere = {"street_address": "", "picture": "https://elsewhere.example/me.png"}
        saved = await browser.post(PATH, {**typed, **elsewhere})
        assert saved.location == f"{PATH}?saved=1", saved.body
        assert (await browser.get(third)).status == 404
        # Pages load images of this server only.
        assert "elsewhere.example" not in (await browser.get("/account/sessions")).body
        # There is no uploaded picture any more: what was typed stays.
        await browser.post(REMOVE, {"csrf": typed["csrf"]})
        assert (await alice(it)).claims.picture == elsewhere["picture"]

    run(tmp_path, story, database_url)


def test_picture_is_removed_with_the_account(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        browser = await signed_in(it)
        await upload(browser, photograph())
        path = await path_of_picture(it)
        await it.store.write(lambda tx: empty_account(tx, ALICE.uid, it.clock.now, "user_removed"))
        assert await it.store.read(lambda tx: tx.pictures.name_of(ALICE.uid)) == ""
        assert (await it.browser().get(path)).status == 404

    run(tmp_path, story, database_url)


def test_a_photograph_of_a_phone_is_accepted(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        assert (await upload(await signed_in(it), photograph((4_000, 3_000)))).status == 303

    run(tmp_path, story)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "Choose a file first."),
        (b"", "This file is not a picture"),
        (SVG, "This file is not a picture"),
        (photograph()[:500], "This file is not a picture"),
        (b"\xff\xd8" * 1_000, "This file is not a picture"),
        (photograph((4_000, 3_000), "PNG"), "This picture is too large."),
        (b"\x89PNG" + b"\0" * LARGEST_UPLOAD, "This picture is too large."),
    ],
    ids=["none", "empty", "svg", "cut", "noise", "pixels", "bytes"],
)
def test_files_that_are_not_pictures_are_refused_at_the_field(
    tmp_path: Path, content: bytes | None, said: str
) -> None:
    async def story(it: Harness) -> None:
        browser = await signed_in(it)
        answer = await upload(browser, content, "me.svg")
        assert answer.status == 400
        assert knows(answer, said)
        assert (await alice(it)).claims.picture == ""

    run(tmp_path, story)


def test_upload_requires_the_own_form_and_a_bounded_body(
    tmp_path: Path,
) -> None:
    async def story(it: Harness) -> None:
        browser = await signed_in(it)
        for csrf in ("", "x"):
            body = multipart(csrf, photograph())
            assert (await browser.send("POST", UPLOAD, body, KIND)).status == 403
        assert (await browser.post(UPLOAD, {"csrf": "x"})).status == 400
        huge = b"x" * (LARGEST_UPLOAD + 100_000)
        assert (await browser.send("POST", UPLOAD, huge, KIND)).status == 413
        assert (await it.browser().send("POST", UPLOAD, multipart("", b""), KIND)).status == 303
        for name in ("x", "A" * 22, "%00", "a%2Fb"):
            assert (await browser.get(f"/pictures/{name}")).status == 404
        assert (await alice(it)).claims.picture == ""

    run(tmp_path, story)
