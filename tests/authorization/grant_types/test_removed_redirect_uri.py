"""A code outlives the registration of its redirect URI for its minute, and nothing else."""

from pathlib import Path

from tests.support.harness import CALLBACK, Harness, run
from valetkey.kernel.replace import replace

_OTHER = "https://app.example/other"


def test_code_is_redeemed_although_its_redirect_uri_was_removed(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        client = await it.client("web")
        codes = [await it.code("web") for _ in range(3)]
        await it.change(replace(client, redirect_uris=(_OTHER,)))
        assert (await it.exchange("web", codes[0])).status == 200
        # It is bound to the URI that it was sent to.
        wrong = await it.exchange("web", codes[1], redirect_uri=_OTHER)
        wrong.refused(400, "invalid_grant")
        # No further code is sent there.
        browser = it.browser(host="localhost:8400", scheme="http")
        parameters = {"response_type": "code", "client_id": "web", "redirect_uri": CALLBACK}
        page = await browser.get("/oauth/authorize", **parameters)
        assert (page.status, page.location) == (400, "")
        it.clock.forward(61)
        (await it.exchange("web", codes[2])).refused(400, "invalid_grant")

    run(tmp_path, story, database_url)
