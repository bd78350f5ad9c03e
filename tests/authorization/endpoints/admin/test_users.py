"""Looking for people: by a part of a word, by uid, with filters, page by page."""

from pathlib import Path

import pytest

from tests.authorization.endpoints.account.people import knows
from tests.authorization.endpoints.admin.people import administrator
from tests.support.harness import Harness
from tests.support.plain_browser import Answer
from tests.support.visitors import ALICE, run
from valetkey.authorization.model.user import Role, Uid
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace


async def many(it: Harness, count: int) -> None:
    def work(tx: Transaction) -> None:
        for number in range(count):
            user = replace(
                ALICE,
                uid=Uid(10_000 + number),
                username=f"person{number:03}",
                email=f"person{number:03}@example.org",
                name=f"Person Number{number:03}",
                created_at=Instant(ALICE.created_at + number),
                disabled_at=ALICE.created_at if number % 40 == 0 else None,
            )
            assert tx.users.register(user)

    await it.store.write(work)


def listed(page: Answer) -> list[str]:
    """The addresses of those who are on the page."""
    return [
        part.partition('"')[0]
        for part in page.body.split('<th scope="row">')[1:]
        for part in part.split('href="')[1:2]
    ]


def test_users_are_searched_and_filtered(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it, Role.AUDITOR)
        everybody = await browser.get("/admin/users")
        assert set(listed(everybody)) == {"/admin/users/1001", "/admin/users/1002"}
        for text in ("bo", "ob", "BOB@", "1002", "  bob  "):
            assert listed(await browser.get("/admin/users", q=text)) == ["/admin/users/1002"], text
        assert listed(await browser.get("/admin/users", show="role")) == ["/admin/users/1001"]
        assert listed(await browser.get("/admin/users", q="b", show="role")) == []
        nobody = await browser.get("/admin/users", q='"><script>x')
        assert knows(nobody, "No users found")
        assert "<script>x" not in nobody.body

    run(tmp_path, story, database_url)


def test_several_users_are_disabled_at_once_and_refusals_are_named(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        await many(it, 3)
        browser = await administrator(it, Role.ADMINISTRATOR)
        path = "/admin/users/selected/disable"
        users = await browser.get("/admin/users")
        assert f'formaction="{path}"' in users.body
        csrf = users.body.partition('name="csrf" value="')[2].partition('"')[0]
        uids = ["10001", "10002", "1001", "10001", "999999", "x", "-1"]
        question = await browser.post(path, {"csrf": csrf, "uid": uids})
        assert knows(question, "Selected: 3")
        done = await browser.submit(question, "do")
        assert knows(done, "Done for 2 of 3.")
        assert knows(done, "Not done for 1 of 3; the reasons are below.")
        assert knows(done, "this is your own account")
        disabled = await browser.get("/admin/users", show="disabled")
        assert set(listed(disabled)) == {f"/admin/users/{uid}" for uid in (10_000, 10_001, 10_002)}
        assert knows(await browser.post(path, {"csrf": csrf}), "Nothing selected")
        one = {"csrf": csrf, "uid": "10001"}
        assert (await browser.post("/admin/users/selected/delete", one)).status == 404
        assert (await browser.post(path, {**one, "csrf": "x"})).status == 403
        support = await administrator(it, Role.SUPPORT)
        assert (await support.post(path, one)).status == 404
        assert "/admin/users/selected/sign-out" in (await support.get("/admin/users")).body
        auditor = await administrator(it, Role.AUDITOR)
        assert 'name="uid"' not in (await auditor.get("/admin/users")).body

    run(tmp_path, story, database_url)


def test_pages_in_both_directions_and_every_order_list_each_user_once(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        await many(it, 120)
        browser = await administrator(it, Role.AUDITOR)
        orders: dict[str, list[str]] = {}
        for start in ("", "?q=person", "?sort=oldest", "?sort=username", "?sort=-username"):
            page = await browser.get(f"/admin/users{start}")
            pages = [listed(page)]
            assert knows(page, f"Total: {120 if 'q=' in start else 122}")
            while address := page.beside("next"):
                page = await browser.get(address)
                pages.append(listed(page))
            urls = orders[start] = [url for one in pages for url in one]
            assert len(urls) == len(set(urls)) == (120 if "q=" in start else 122)
            back = []
            while address := page.beside("prev"):
                page = await browser.get(address)
                back.append(listed(page))
            assert back == pages[-2::-1]
            assert "First page" not in page.body
        assert orders["?sort=oldest"] == orders[""][::-1]
        names = ["1001", "1002", *(str(10_000 + number) for number in range(120))]
        assert orders["?sort=username"] == [f"/admin/users/{name}" for name in names]
        assert orders["?sort=-username"] == orders["?sort=username"][::-1]
        first = await browser.get("/admin/users")
        assert 'href="/admin/users?sort=username"' in first.body
        assert 'href="/admin/users?sort=oldest"' in first.body
        assert first.body.count('aria-sort="descending"') == 1
        # The results of a search have an order of their own, and offer no other.
        result = await browser.get("/admin/users", q="person", sort="username")
        assert 'name="sort"' in first.body
        assert 'name="sort"' not in result.body
        assert "sort=-username" not in result.body
        by_name = await browser.get("/admin/users", sort="username", show="disabled")
        assert 'href="/admin/users?show=disabled&amp;sort=-username"' in by_name.body
        assert by_name.body.count('aria-sort="ascending"') == 1
        assert "aria-sort" not in (await browser.get("/admin/users", q="person")).body
        assert knows(await browser.get("/admin/users", show="disabled"), "Total: 3")
        off = await browser.get("/admin/users", q="person", show="disabled")
        assert listed(off) == ["/admin/users/10000", "/admin/users/10040", "/admin/users/10080"]

    run(tmp_path, story, database_url)


@pytest.mark.parametrize(
    "query",
    [
        "after=x",
        "after=.",
        "after=1.99999999999999999",
        "after=zz.1",
        "q=%ed%a0%80",
        "q=%zz",
        "q=a&q=b",
        f"after={'9' * 81}.1",
        "after=ff.1",
    ],
)
def test_invalid_query_is_refused(query: str, tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it, Role.AUDITOR)
        answer = await browser.get(f"/admin/users?{query}")
        assert answer.status == 400, query

    run(tmp_path, story)


def test_long_searches_and_unknown_filters_are_accepted(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it, Role.AUDITOR)
        assert (await browser.get("/admin/users", q="b" * 5_000)).status == 200
        assert (await browser.get("/admin/users", q="9" * 300)).status == 200
        assert (await browser.get("/admin/users", show="nonsense")).status == 200

    run(tmp_path, story)
