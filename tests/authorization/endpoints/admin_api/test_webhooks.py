"""Webhooks in the admin API: created, bounded, listed without secrets, removed."""

from pathlib import Path

import pytest

from tests.authorization.endpoints.admin_api.programs import caller
from tests.authorization.endpoints.world import Service, run
from valetkey.authorization.model.webhook import MOST_WEBHOOKS

URL = "https://receiver.example/hook"


def test_webhook_is_created_tested_and_removed(tmp_path: Path, database_url: str) -> None:
    async def story(it: Service) -> None:
        owner = await caller(it)
        created = await owner.call("POST", "/webhooks", {"url": URL, "events": ["user.disabled"]})
        webhook_id, secret = str(created.json["webhook_id"]), str(created.json["secret"])
        assert (created.status, secret.startswith("whsec_")) == (200, True)
        listed = await owner.call("GET", "/webhooks")
        assert secret not in listed.body.decode()
        assert [each["url"] for each in listed.items] == [URL]
        at = f"/webhooks/{webhook_id}"
        for verb, changed in (("disable", True), ("disable", False), ("enable", True)):
            answer = await owner.call("POST", f"{at}/{verb}")
            assert answer.json == {"changed": changed}
        assert (await owner.call("POST", f"{at}/test")).status == 200
        assert (await owner.call("POST", f"{at}/events/ev_none")).status == 404
        assert (await owner.call("GET", f"{at}/attempts")).items == []
        await owner.call("POST", f"{at}/disable")
        assert (await owner.call("POST", f"{at}/test")).status == 409
        renewed = await owner.call("POST", f"{at}/secret")
        assert renewed.json["secret"] != secret
        assert (await owner.call("DELETE", at)).json == {"changed": True}
        for method, path in (("DELETE", at), ("GET", f"{at}/attempts"), ("POST", f"{at}/test")):
            assert (await owner.call(method, path)).status == 404

    run(tmp_path, story, database=database_url)


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"url": "http://receiver.example/"},
        {"url": "https://10.0.0.7/"},
        {"url": "https://localhost/"},
        {"url": "https://receiver.example:8443/"},
        {"url": "https://user:x@receiver.example/"},
        {"url": f"{URL}\r\nx-more: 1"},
        {"url": URL, "events": ["user.no_such"]},
        {"url": URL, "more": 1},
    ],
)
def test_invalid_webhook_is_rejected(tmp_path: Path, wanted: dict[str, object]) -> None:
    async def story(it: Service) -> None:
        owner = await caller(it)
        assert (await owner.call("POST", "/webhooks", wanted)).status == 400
        assert (await owner.call("GET", "/webhooks")).items == []

    run(tmp_path, story)


def test_number_of_webhooks_is_bounded(tmp_path: Path) -> None:
    async def story(it: Service) -> None:
        owner = await caller(it)
        for number in range(MOST_WEBHOOKS + 1):
            answer = await owner.call("POST", "/webhooks", {"url": URL})
            assert answer.status == (200 if number < MOST_WEBHOOKS else 409)

    run(tmp_path, story)
