"""Events are found by the object that they are about: in lists, pages and exports."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

from tests.authorization.endpoints.admin.things.desk import administrator, page
from tests.authorization.endpoints.admin_api.programs import Caller, caller
from tests.support.harness import ADA, NOON, Harness, run
from valetkey.authorization.features import EVENTS
from valetkey.authorization.model.event.accounts import GroupMemberAdded, MailGivenUp, SignInFailed
from valetkey.authorization.providers.model import ProviderChanged
from valetkey.authorization.signals.model import SignalStreamUpdated
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant

URL = "https://receiver.example/hook"


async def _objects(owner: Caller) -> dict[str, list[str]]:
    """Make one object of each kind; return the names of the events about each, newest first."""
    for name in ("printers", "others"):
        await owner.call("POST", "/groups", {"name": name})
    await owner.call("PUT", f"/groups/printers/members/{ADA}")
    declared = {"identifier": "https://notes.example", "name": "Notes", "roles": ["reader"]}
    api = str((await owner.call("POST", "/apis", declared)).json["api_id"])
    await owner.call("PUT", f"/apis/{api}/roles/reader/users/{ADA}")
    await owner.call("PUT", f"/apis/{api}/roles/reader/groups/printers")
    await owner.call("POST", f"/apis/{api}/secrets", {})
    hook = {"url": URL, "events": ["user.disabled"]}
    webhook = str((await owner.call("POST", "/webhooks", hook)).json["webhook_id"])
    await owner.call("POST", f"/webhooks/{webhook}/disable")
    sent = {"label": "Team", "schema": {"type": "string"}}
    made = await owner.call("PUT", "/attributes/team", sent)
    assert made.status == 200, made.body
    return {
        "group:printers": ["group_member.added", "group.created"],
        "group:others": ["group.created"],
        f"api:{api}": [
            "client_secret.issued",
            "group_api_role.assigned",
            "api_role.assigned",
            "api.registered",
        ],
        "attribute:team": ["attribute.declared"],
        f"webhook:{webhook}": ["webhook.disabled", "webhook.created"],
    }


async def _all(owner: Caller, query: str) -> Sequence[str]:
    """The names of all events found, one a page."""
    names, path = list[str](), f"/events?limit=1&{query}"
    while path:
        reply = await owner.call("GET", path)
        assert reply.status == 200, (query, reply.body)
        names += [str(event["name"]) for event in reply.items]
        path = reply.headers.get("link", "").partition("<")[2].partition(">")[0]
        path = path.removeprefix("/admin/api/v1")
    return names


def test_events_are_filtered_by_subject_in_api_and_console(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        owner = await caller(it)
        objects = await _objects(owner)
        token = f"token:{(await owner.call('GET', '/token')).record['id']}"
        objects |= {token: ["api_token.issued"]}
        for subject, names in objects.items():
            assert sorted(await _all(owner, f"subject={subject}")) == sorted(names), subject
            one = await _all(owner, f"subject={subject}&name={names[0]}&outcome=success")
            assert one == names[:1], subject
            assert not await _all(owner, f"subject={subject}&outcome=failure")
            assert not await _all(owner, f"subject={subject}&uid=77")
            assert not await _all(owner, f"subject={subject}&since=9007199254740000")
        assert await _all(owner, f"subject=group:printers&uid={ADA}") == ["group_member.added"]
        of_kind = await _all(owner, "subject=group")
        assert sorted(of_kind) == ["group.created", "group.created", "group_member.added"]
        assert "client.registered" in await _all(owner, "subject=client:web")
        assert not await _all(owner, "subject=client:web&client_id=other")
        assert not await _all(owner, f"subject=user:{ADA}&uid=77")
        assert "group_member.added" in await _all(owner, f"subject=user:{ADA}")
        for wrong in (
            "user",
            "user:0",
            "user:x",
            "nothing",
            "nothing:1",
            ":",
            "%C2%B2",
            "user:%C2%B2",
        ):
            assert (await owner.call("GET", f"/events?subject={wrong}")).status == 400, wrong

        browser = await administrator(it)
        for subject, names in objects.items():
            body = (await page(browser, f"/admin/events?subject={subject}")).body
            shown = re.findall(r"<code>(\w+\.\w+)</code>", body.partition('id="events"')[2])
            assert sorted(shown) == sorted(names), subject
            copied = await owner.call("POST", "/events/export", {"subject": subject})
            lines = [json.loads(line) for line in copied.body.splitlines()]
            assert sorted(event["name"] for event in lines) == sorted(names), subject
        unknown = await page(browser, "/admin/events?subject=nothing")
        assert "Enter a kind of object" in unknown.body
        assert 'class="entries"' not in unknown.body
        for subject, names in objects.items():
            kind, _, id_ = subject.partition(":")
            if subject == "group:others":
                continue
            body = (await page(browser, f"/admin/{kind}s/{id_}")).body
            activity = body.partition('<h2 id="activity">')[2]
            assert all(f"<code>{name}</code>" in activity for name in names), subject
            url = re.search(r'href="(/admin/events[?]subject=[^"]+)" id="events"', activity)
            assert url, subject
            of_all = (await page(browser, url[1])).body.partition('id="events"')[2]
            assert all(f"<code>{name}</code>" in of_all for name in names), subject

    run(tmp_path, story, database_url)


def test_a_renamed_group_keeps_its_events(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        await owner.call("POST", "/groups", {"name": "printers"})
        tag = {"if-match": (await owner.call("GET", "/groups/printers")).headers["etag"]}
        renamed = {"name": "writers"}
        changed = await owner.call("PATCH", "/groups/printers", renamed, headers=tag)
        assert changed.status == 200, changed.body
        await owner.call("POST", "/groups", {"name": "printers"})
        assert await _all(owner, "subject=group:writers") == ["group.changed", "group.created"]
        assert await _all(owner, "subject=group:printers") == ["group.created"]
        reply = await owner.call("GET", "/events?subject=group:writers")
        await owner.call("DELETE", "/groups/writers")
        of_id = await _all(owner, f"subject={reply.items[0]['subject']}")
        assert of_id == ["group.deleted", "group.changed", "group.created"]

    run(tmp_path, story, database_url)


def test_events_about_an_object_keep_their_order_over_pages(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)

        def happen(tx: Transaction) -> None:
            for number in range(60):
                at = Instant(NOON + number // 7)
                tx.events.add(SignalStreamUpdated(f"st_{number % 2}", "web", f"s{number}"), at)
                tx.events.add(ProviderChanged(f"p_{number % 3}", ("name",)), at)
                tx.events.add(GroupMemberAdded(ADA, "old"), at)

        await it.write(happen)
        seen, after = list[object](), ""
        while True:
            reply = await owner.call("GET", f"/events?subject=stream:st_1&limit=4{after}")
            seen += [json.dumps(event["data"]) for event in reply.items]
            if reply.json["next"] is None:
                break
            after = f"&cursor={reply.json['next']}"
        assert len(seen) == len(set(seen)) == 30
        assert len(await _all(owner, "subject=provider&done_by=cli%20test")) == 60
        assert len(await _all(owner, "subject=provider:p_2&done_by=cli%20test")) == 20
        assert not await _all(owner, "subject=provider:p_2&done_by=cli%20ada")
        # An event of the version before names no id: it is found by its kind.
        assert len(await _all(owner, "subject=group")) == 60

    run(tmp_path, story, database_url)


def test_sentences_name_the_objects_and_link_to_them(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        objects = await _objects(owner)
        scim = await owner.call("POST", "/scim-credentials", {"name": "Okta & Co"})
        assert scim.status == 201, scim.body
        api = next(name for name in objects if name.startswith("api:")).partition(":")[2]
        hook = next(name for name in objects if name.startswith("webhook:")).partition(":")[2]
        token = (await owner.call("GET", "/token")).record["id"]
        browser = await administrator(it)

        async def sentences() -> str:
            shown = await page(browser, "/admin/events")
            pages = [shown.body]
            while address := shown.beside("next"):
                shown = await page(browser, address)
                pages.append(shown.body)
            return re.sub(r"\s+", " ", "".join(pages))

        text = await sentences()
        shown = "https://receiver.example/…"
        receiver = f'<a href="/admin/webhooks/{hook}"><bdi>{shown}</bdi></a>'
        assert URL not in text, "the path of a webhook may be a secret"
        group = '<a href="/admin/groups/printers"><bdi>printers</bdi></a>'
        notes = f'<a href="/admin/apis/{api}"><bdi>Notes</bdi></a>'
        for sentence in (
            f"The group {group} was created.",
            f"was added to the group {group}.",
            f"was assigned the role reader at the API {notes}.",
            f"The group printers was assigned the role reader at the API {notes}.",
            f"The API {notes} was added.",
            f"The webhook {receiver} was disabled: ",
            "an administrator decided it.",
            'credential <a href="/admin/scim"><bdi>Okta &amp; Co</bdi></a> was issued.',
            f'The API token <a href="/admin/tokens/{token}"><bdi>A program</bdi></a> was created',
            "with the API token A program",
        ):
            assert sentence in text, sentence
        for path in ("groups/printers", f"apis/{api}", f"webhooks/{hook}"):
            assert (await owner.call("DELETE", f"/{path}")).status < 300, path
        text = await sentences()
        for sentence in (
            "The group <bdi>printers</bdi> was created.",
            "The API <bdi>https://notes.example</bdi> was added.",
            f"The webhook <bdi>{hook}</bdi> was deleted.",
        ):
            assert sentence in text, sentence

    run(tmp_path, story, database_url)


def test_events_about_no_user_have_a_sentence_without_one(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        def happen(tx: Transaction) -> None:
            tx.events.add(SignInFailed(None, "password", "unknown_user"), NOON)
            tx.events.add(MailGivenUp(None, "invitation", 9, "recipient rejected with 550"), NOON)

        await it.write(happen)
        body = (await page(await administrator(it), "/admin/events?outcome=failure")).body
        assert "A sign-in failed: there is no such account." in body
        assert "could not be delivered: recipient rejected with 550." in body
        assert "an unknown user" not in body

    run(tmp_path, story)


def test_event_subject_has_a_kind_and_a_field_of_the_event() -> None:
    for event in EVENTS:
        if event.subject:
            kind, field = re.fullmatch(r"([a-z]+):\{(\w+)\}", event.subject).groups()  # type: ignore[union-attr]
            assert kind == event.subject_kind()
            assert field in event.__struct_fields__, event.name
