"""Requests that failed: the team reads why, and nobody else learns that there was one."""

import re
from pathlib import Path

from tests.authorization.endpoints.account.people import knows, signed_in
from tests.authorization.endpoints.developer.insight.teams import (
    WEB1,
    are_for_the_team_alone,
    team,
)
from tests.support.harness import NOON, Harness
from tests.support.plain_browser import Answer, usual
from tests.support.visitors import ISSUER, WEB, run
from valetkey.authorization.background.maintenance import Maintenance
from valetkey.authorization.portal.pages.requests import SHOWN
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.storage.usage import ClientDecisionQueue
from valetkey.kernel.moment import Instant, days
from valetkey.kernel.refusal import ErrorCode, Refusal
from valetkey.kernel.replace import replace
from valetkey.kernel.runtime import SYSTEM, Runtime
from valetkey.kernel.scope import Scope

HOSTILE = "<script>alert(1)</script>\"' onload=x {{ 7*7 }} \u202e"


async def written(it: Harness) -> None:
    """Every refusal so far is on disk."""
    await Maintenance(
        it.store,
        it.server.decisions,
        it.authorize.minter.keys,
        Runtime(lambda: NOON, SYSTEM.random),
    ).flush()


def refused(
    it: Harness,
    check: str = "code.expired",
    *,
    code: ErrorCode = ErrorCode.INVALID_GRANT,
    client_id: str | None = "web1",
    expected: str = "",
    received: str = "",
) -> str:
    """The reference of one."""
    refusal = Refusal(code, "no, in fixed words", check, expected, received)
    return it.server.decisions.enqueue(
        refusal, endpoint="/oauth/token", at=it.clock.now, client_id=client_id, proven=True
    )


def test_wrong_redirect_uri_is_explained_only_to_the_team_of_the_app(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        await team(it)
        problem = await it.browser().ask(redirect_uri="https://app.example/callback/")
        assert problem.status == 400
        match = re.search(r'href="(/developer/failures/(VK-[0-9A-Z-]+))"', problem.body)
        assert match
        assert "app.example/callback" not in problem.body
        await written(it)
        owner = await signed_in(it)
        answer = await owner.follow(await owner.get(match[1]))
        assert answer.status == 200, answer.body
        for words in (
            "redirect_uri.unknown",
            "https://app.example/callback/",
            "https://app.example/cb",
            "exactly matches",
            "Add this redirect URI",
            "Anyone can send such a request with your client ID",
        ):
            assert knows(answer, words), words
        assert match[2] in (await owner.get(f"{WEB1}/requests")).body
        stranger = await signed_in(it, "mallory")
        assert (await stranger.get(match[1])).status == 404
        assert (await stranger.get(f"/developer/apps/nat1/failures/{match[2]}")).status == 404

    run(tmp_path, story, database_url)


def test_every_refused_authorization_request_is_listed_for_the_team(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await team(it)
        for wrong in ({"scope": "nothing"}, {"response_type": "x"}, {"redirect_uri": "-"}):
            await it.browser().ask(**wrong)
        await it.browser().ask(redirect_uri="https://evil.example/")
        await it.browser().ask(client_id="web1", prompt="none")
        await written(it)
        page = await (await signed_in(it)).get(f"{WEB1}/requests")
        for code in ("invalid_scope", "unsupported_response_type", "login_required"):
            assert f"<code>{code}</code>" in page.body
        assert page.body.count('<th scope="row">') == 4
        assert "evil.example" not in page.body

    run(tmp_path, story)


def test_failure_pages_are_available_only_to_the_team(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await team(it)
        reference = refused(it)
        nobodys = refused(it, client_id=None)
        await written(it)
        owner = await are_for_the_team_alone(it, f"{WEB1}/requests", f"{WEB1}/failures/{reference}")
        assert (await owner.get(f"{WEB1}/failures/{nobodys}")).status == 404
        assert (await owner.get(f"/developer/failures/{nobodys}")).status == 404
        assert (await it.browser().get(f"/developer/failures/{reference}")).status == 303

    run(tmp_path, story)


def test_failures_are_paged_without_gap_and_can_be_filtered(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        await team(it)
        for _ in range(SHOWN * 2):
            refused(it)
        refused(it, "scope.wider", code=ErrorCode.INVALID_SCOPE)
        await written(it)
        browser = await signed_in(it)
        page = await browser.get(f"{WEB1}/requests")
        counts = [page.body.count('<th scope="row">')]
        while address := page.beside("next"):
            page = await browser.get(address)
            counts.append(page.body.count('<th scope="row">'))
        assert counts == [SHOWN, SHOWN, 1]
        assert knows(page, ">Newest</a>")
        page = await browser.get(page.beside("prev"))
        assert page.body.count('<th scope="row">') == SHOWN
        assert page.beside("prev") == f"{WEB1}/requests"
        one = await browser.get(f"{WEB1}/requests", code="invalid_scope")
        assert one.body.count('<th scope="row">') == 1
        none = await browser.get(f"{WEB1}/requests", code="invalid_client")
        assert knows(none, "No matching requests")

    run(tmp_path, story, database_url)


def test_app_without_requests_has_an_empty_list(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await team(it)
        page = await (await signed_in(it)).get(f"{WEB1}/requests")
        assert knows(page, "No requests yet")

    run(tmp_path, story)


def test_malformed_cursor_filter_and_reference_are_refused(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await team(it)
        browser = await signed_in(it)
        for wrong in ("", "1", "0.VK-1", "1.VK-7F3K", "9" * 13 + ".VK-7F3K-9QXM-2RTD", "²"):
            assert (await browser.get(f"{WEB1}/requests", before=wrong)).status == 400, wrong
        assert (await browser.get(f"{WEB1}/requests", code="nothing_of_ours")).status == 400
        for wrong in ("x", "VK-7F3K-9QXM-2RTD", "%00", "%ff", "VK-" + "7" * 2_000):
            assert (await browser.get(f"{WEB1}/failures/{wrong}")).status == 404, wrong
            assert (await browser.get(f"/developer/failures/{wrong}")).status == 404, wrong
        assert (await browser.get("/developer/failures")).status == 404
        assert (await browser.post(f"{WEB1}/requests", {})).status == 405

    run(tmp_path, story)


def test_reference_is_found_without_regard_to_case_and_separators(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await team(it)
        reference = refused(it)
        await written(it)
        browser = await signed_in(it)
        typed = reference.lower().replace("-", " ").replace("0", "o").replace("1", "l")
        answer = await browser.get("/developer/failures", reference=f" {typed} ")
        assert answer.location == f"{WEB1}/failures/{reference}"

    run(tmp_path, story)


def test_xs_01_values_in_failed_requests_are_escaped(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await team(it)
        reference = refused(it, HOSTILE, expected=HOSTILE, received=HOSTILE)
        reference2 = refused(
            it, "redirect_uri.unknown", received="'https://x/\"><script>alert(1)</script>'"
        )
        await written(it)
        browser = await signed_in(it)
        for failure in (reference, reference2):
            page = await browser.get(f"{WEB1}/failures/{failure}")
            assert page.status == 200
            assert "<script>alert" not in page.body
            assert "\u202e" not in page.body
            assert "49" not in page.body.partition("<dt>Expected")[2].partition("<h2")[0]
            assert "script-src 'self'" in page.header("content-security-policy")

    run(tmp_path, story)


def test_failures_with_a_claimed_client_id_do_not_displace_those_of_the_client() -> None:
    queue = ClientDecisionQueue(SYSTEM.random)
    no = Refusal(ErrorCode.INVALID_CLIENT, "no", "client.secret", about="web1")
    for _ in range(1_000):
        queue.enqueue(no, endpoint="/oauth/token", at=NOON)
    mine = Refusal(ErrorCode.INVALID_GRANT, "no", "code.expired")
    queue.enqueue(mine, endpoint="/oauth/token", at=NOON, client_id="web1", proven=True)
    named = [decision for decision in queue.waiting if decision.client_id == "web1"]
    assert len(named) == 61
    assert named[-1].check == "code.expired"
    later = Instant(NOON + days(1))
    queue.enqueue(no, endpoint="/oauth/token", at=later)
    assert queue.waiting[-1].client_id == "web1"


def test_failure_records_are_deleted_after_a_week(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await team(it)
        reference = refused(it)
        await written(it)

        def sweep(tx: Transaction) -> int:
            return tx.decisions.sweep(Instant(NOON + days(7)), 10)

        assert await it.store.write(sweep) == 1
        browser = await signed_in(it)
        assert (await browser.get(f"{WEB1}/failures/{reference}")).status == 404

    run(tmp_path, story)


def test_missing_redirect_uri_is_added_after_confirmation(
    tmp_path: Path,
    database_url: str,
) -> None:
    async def story(it: Harness) -> None:
        await team(it)
        await it.change(replace(WEB, scope=Scope.of("read", "notes:read")))
        near, far = "https://app.example/cb/", "https://evil.example/cb"
        for uri in (near, far):
            await it.browser().ask(redirect_uri=uri)
        await written(it)
        browser = await signed_in(it, "bob")
        pages: list[Answer] = []
        listed = await browser.get(f"{WEB1}/requests")
        for reference in re.findall(r"failures/(VK-[0-9A-Z-]+)", listed.body):
            page = await browser.get(f"{WEB1}/failures/{reference}")
            link = re.search(r'href="([^"]+/add)"', page.body)
            assert link
            pages.append(await browser.get(link[1]))
        (good,) = [page for page in pages if near in page.body]
        (evil,) = [page for page in pages if far in page.body]
        assert knows(evil, "Your app has no other redirect URI at <bdi>evil.example</bdi>")
        assert "no other redirect URI" not in good.body
        answer = await browser.submit(good, "add")
        assert answer.location == f"{WEB1}/settings?saved=1"
        client = await it.server.directory.find("web1")
        assert client is not None
        assert client.redirect_uris == (*WEB.redirect_uris, near)
        assert knows(await it.browser().ask(redirect_uri=near), "Sign in")
        # Twice is once; a stranger can neither ask nor press.
        assert (await browser.submit(good, "add")).status == 303
        assert (await it.events()).count("client.changed") == 1
        action, fields = evil.form("add")
        stranger = await signed_in(it, "mallory")
        assert (await stranger.get(action)).status == 404
        assert (await stranger.post(action, fields)).status in {403, 404}
        assert (await browser.post(action, {})).status == 403

    run(tmp_path, story, database_url)


def test_invalid_redirect_uri_cannot_be_added_from_a_failure(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await team(it)
        await it.change(replace(WEB, scope=Scope.of("read", "notes:read")))
        plain = refused(it, "redirect_uri.unknown", received="'http://app.example/cb'")
        other = refused(it, "code.expired", received="'https://app.example/x'")
        odd = refused(it, "redirect_uri.unknown", received="'https://app.example/\\u202e'")
        await written(it)
        browser = await signed_in(it)
        for reference in (other, odd):
            assert (await browser.get(f"{WEB1}/failures/{reference}/add")).status == 404
        question = await browser.get(f"{WEB1}/failures/{plain}/add")
        assert (await browser.submit(question, "add")).status == 409

    run(tmp_path, story)


def test_error_uri_links_the_team_to_the_record(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await team(it)
        answer = await it.browser().get("/oauth/authorize", **usual(scope="nothing"))
        await written(it)
        page = await it.browser().get(answer.told["error_uri"].removeprefix(ISSUER))
        assert page.status == 200
        link = "/developer/failures/" + answer.told["error_uri"].partition("?reference=")[2]
        assert f'href="{link}"' in page.body
        browser = await signed_in(it)
        assert knows(await browser.follow(await browser.get(link)), "scope.wider")
        for wrong in ("", "x", "<script>alert(1)</script>", "VK-7F3K-9QXM-2RT"):
            page = await it.browser().get("/errors/invalid_scope", reference=wrong)
            assert page.status == 200
            assert "/developer/failures" not in page.body
            assert "alert" not in page.body.partition("<footer")[0]

    run(tmp_path, story)
