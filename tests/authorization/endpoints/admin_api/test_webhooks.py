"""Webhooks in the admin API: created, bounded, listed without secrets, removed."""

from pathlib import Path

from tests.authorization.endpoints.admin_api.programs import caller
from tests.support.cases import case
from tests.support.harness import Harness, run
from valetkey.authorization.model.user import Role
from valetkey.authorization.webhooks.model import MOST_WEBHOOKS, WebhookAttempt
from valetkey.authorization.webhooks.storage import Webhooks

URL = "https://receiver.example/hook"


def test_webhook_is_created_tested_and_removed(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        created = await owner.call("POST", "/webhooks", {"url": URL, "events": ["user.disabled"]})
        webhook_id, secret = str(created.json["webhook_id"]), str(created.json["secret"])
        assert (created.status, secret.startswith("whsec_")) == (201, True)
        listed = await owner.call("GET", "/webhooks")
        assert secret not in listed.body.decode()
        assert [webhook["url"] for webhook in listed.items] == [URL]
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


def test_changed_webhook_keeps_its_secret_and_rejects_stale_changes(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        at = f"/webhooks/{(await owner.call('POST', '/webhooks', {'url': URL})).json['webhook_id']}"
        tag = {"if-match": (await owner.call("GET", at)).headers["etag"]}
        change = {"url": f"{URL}/2", "events": ["user.disabled"]}
        assert (await owner.call("PATCH", at, change)).status == 428
        for invalid in ({"url": "https://10.0.0.7/"}, {"events": ["no.such"]}, {"uri": URL}):
            assert (await owner.call("PATCH", at, invalid, headers=tag)).status == 400
        answer = await owner.call("PATCH", at, change, headers=tag)
        assert (answer.status, answer.json["url"], answer.json["description"]) == (
            200,
            f"{URL}/2",
            "",
        )
        assert (await owner.call("PATCH", at, change, headers=tag)).status == 412
        assert (await it.events()).count("webhook.changed") == 1

    run(tmp_path, story)


def test_address_and_responses_are_masked_for_auditors(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        await owner.call("POST", "/webhooks", {"url": f"{URL}/s3cret?token=s3cret"})
        auditor = await caller(it, Role.AUDITOR)
        (shown,) = (await auditor.call("GET", "/webhooks")).items
        at = f"/webhooks/{shown['webhook_id']}"
        attempt = WebhookAttempt(
            "wa_1",
            str(shown["webhook_id"]),
            "ev_1",
            "user.enabled",
            it.clock.now,
            1,
            "500",
            9,
            "s3cret",
        )
        await it.write(lambda tx: Webhooks.of(tx).log(attempt))
        assert shown["url"] == "https://receiver.example/…"
        for path in ("/webhooks", at, f"{at}/attempts"):
            answer = await auditor.call("GET", path)
            assert (answer.status, b"s3cret" in answer.body) == (200, False)
        program = await caller(it, Role.OWNER, ("read",))
        assert b"s3cret" not in (await program.call("GET", "/webhooks")).body

    run(tmp_path, story)


_INVALID_WEBHOOKS: tuple[dict[str, object], ...] = (
    {},
    {"url": "http://receiver.example/"},
    {"url": "https://10.0.0.7/"},
    {"url": "https://localhost/"},
    {"url": "https://receiver.example:8443/"},
    {"url": "https://user:x@receiver.example/"},
    {"url": f"{URL}\r\nx-more: 1"},
    {"url": URL, "events": ["user.no_such"]},
    {"url": URL, "more": 1},
)


def test_invalid_webhook_is_rejected(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        for body in _INVALID_WEBHOOKS:
            with case(body):
                assert (await owner.call("POST", "/webhooks", body)).status == 400
                assert (await owner.call("GET", "/webhooks")).items == []

    run(tmp_path, story)


def test_number_of_webhooks_is_bounded(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        for number in range(MOST_WEBHOOKS + 1):
            answer = await owner.call("POST", "/webhooks", {"url": URL})
            assert answer.status == (201 if number < MOST_WEBHOOKS else 409)

    run(tmp_path, story)
