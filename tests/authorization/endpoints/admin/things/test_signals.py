"""Streams of security events in the console: created, changed, verified, stopped and deleted."""

import re
from pathlib import Path

from tests.authorization.endpoints.admin.things.desk import administrator, do, page
from tests.support.harness import Harness, run
from valetkey.authorization.model.user import Role
from valetkey.authorization.signals.model import MOST_STREAMS_OF_CLIENT
from valetkey.authorization.signals.storage import SignalStreams

URL = "https://receiver.example/s3cret"
SECRET = "Bearer of-the-receiver"
NEW = "/admin/signal-streams/new"


async def _only(it: Harness) -> str:
    (stream,) = await it.read(lambda tx: SignalStreams.of(tx).all())
    return f"/admin/signal-streams/{stream.id}"


def test_stream_is_managed_in_the_console(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("devices")
        browser = await administrator(it)
        for wrong in (
            {"client_id": "nobody", "url": URL},
            {"client_id": "devices", "url": "https://10.0.0.7/"},
            {"client_id": "devices", "url": URL, "events": "no-such"},
        ):
            refused = await do(browser, NEW, subject_format="iss_sub", **wrong)
            assert refused.status in {400, 404}, refused.body
        form = (await page(browser, NEW)).body
        assert "A session ended" in form
        assert re.search(r'name="authorization_header"\s+type="password"', form)
        assert re.search(r'src="/assets/[^"]*show[^"]*\.js"', form)
        made = await do(
            browser,
            NEW,
            client_id="devices",
            url=URL,
            events="session-revoked",
            authorization_header=SECRET,
            subject_format="iss_sub",
        )
        one = await _only(it)
        assert made.location == one
        shown = (await page(browser, one)).body
        assert "A session ended" in shown
        assert '<a href="/admin/clients/devices"' in shown
        assert SECRET not in shown
        edit = await page(browser, f"{one}/edit")
        assert SECRET not in edit.body
        changed = await browser.submit(edit, "do", description="Devices")
        assert changed.location == f"{one}?done=edit"
        stale = await browser.submit(edit, "do", description="Other")
        assert stale.status == 400
        stream = await it.read(lambda tx: SignalStreams.of(tx).find(one[22:]))
        assert stream is not None
        assert (stream.description, stream.sealed is None) == ("Devices", False)
        for act in ("verify", "pause", "enable", "disable"):
            assert (await do(browser, f"{one}/{act}")).location == f"{one}?done={act}"
        assert "disabled by an operator" in (await page(browser, one)).body
        assert (await do(browser, f"{one}/delete")).location == "/admin/signal-streams?deleted=1"
        assert (await browser.get(one)).status == 404

    run(tmp_path, story, background=False)


def test_auditors_see_streams_without_paths_and_buttons(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("devices")
        browser = await administrator(it)
        await do(browser, NEW, client_id="devices", url=URL, subject_format="iss_sub")
        one = await _only(it)
        auditor = await administrator(it, Role.AUDITOR)
        for path in ("/admin/signal-streams", one):
            shown = (await page(auditor, path)).body
            assert "devices" in shown
            assert "s3cret" not in shown
            assert "/edit" not in shown
            assert "/new" not in shown

    run(tmp_path, story, background=False)


def test_refusal_of_a_stream_is_at_its_field_and_keeps_the_form(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        await it.client("devices", scopes=("openid", "ssf.read"))
        browser = await administrator(it)
        new = {"client_id": "devices", "url": URL, "description": "Laptops of the staff"}
        for changes, field in (
            ({"subject_format": "email"}, "subject_format"),
            ({"url": "https://10.0.0.7/"}, "url"),
            ({"url": "", "authorization_header": SECRET}, "authorization_header"),
        ):
            refused = await do(browser, NEW, **{**new, "subject_format": "iss_sub", **changes})
            assert refused.status == 400, refused.body
            assert f'id="{field.replace("_", "-")}-fault"' in refused.body
            assert "Laptops of the staff" in refused.body
        for _ in range(MOST_STREAMS_OF_CLIENT):
            assert (await do(browser, NEW, **new, subject_format="iss_sub")).status == 303
        full = await do(browser, NEW, **new, subject_format="iss_sub")
        assert (full.status, "streams already" in full.body) == (400, True)
        assert "Laptops of the staff" in full.body
        streams = await it.read(lambda tx: SignalStreams.of(tx).all())
        one = f"/admin/signal-streams/{streams[0].id}/edit"
        refused = await browser.submit(await page(browser, one), "do", subject_format="email")
        assert (refused.status, "Laptops of the staff" in refused.body) == (400, True)
        assert 'id="subject-format-fault"' in refused.body

    run(tmp_path, story, database_url, background=False)
