"""Attributes, claims, the preview of tokens and SCIM credentials in the console."""

import json
import re
from html import unescape
from pathlib import Path

import pytest

from tests.authorization.endpoints.admin.things.desk import administrator, do, page
from tests.support.harness import ADA, USER_SCOPES, Harness, run
from tests.support.plain_browser import Answer
from valetkey.authorization.model.user import Role
from valetkey.authorization.scim.storage import ScimCredentials
from valetkey.authorization.site.admin.input_fields import _declared  # pyright: ignore[reportPrivateUsage]
from valetkey.kernel.moment import minutes

TEXT = '{"type": "string", "maxLength": 40}'


def content(answer: Answer, slug: str) -> dict[str, object]:
    """The content of a token in the preview."""
    match = re.search(f'<code id="{slug}">(.*?)</code>', answer.body, re.DOTALL)
    assert match is not None, slug
    shown: dict[str, object] = json.loads(unescape(match[1]))
    return shown


def claim(source: str, *places: str) -> dict[str, str | list[str]]:
    """The fields of a claim."""
    return {"from": source, "in": list(places)}


def test_attribute_is_declared_put_into_a_claim_and_previewed(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web", scopes=(*USER_SCOPES, "openid"))
        browser = await administrator(it)
        made = await do(
            browser, "/admin/attributes/new", name="department", label="Department", schema=TEXT
        )
        assert made.location == "/admin/attributes/department?done=saved"
        assert "Department" in (await page(browser, made.location)).body
        set_ = await do(browser, "/admin/users/1001/attributes", attribute_department="physics")
        assert set_.location == "/admin/users/1001?done=attributes"
        assert "physics" in (await page(browser, "/admin/users/1001")).body
        declared = await do(
            browser,
            "/admin/claims/new",
            name="department",
            **claim("attribute:department", "id_token"),
        )
        assert declared.location == "/admin/claims/department?done=saved"
        user, app = [
            await page(browser, path) for path in ("/admin/users/1001", "/admin/clients/web")
        ]
        used = await page(browser, "/admin/attributes/department")
        assert 'href="/admin/claims/department"' in used.body
        assert "ID token" in used.body
        assert 'href="/admin/claims/preview?person=uid%3A1001"' in user.body
        assert 'href="/admin/claims/preview?client=web"' in app.body
        shown = await page(browser, "/admin/claims/preview?person=ada&client=web")
        assert content(shown, "id-token")["department"] == "physics"
        assert "department" not in content(shown, "userinfo")
        answer = await do(
            browser,
            "/admin/claims/department/edit",
            argument="here",
            **claim("constant:", "id_token", "userinfo"),
        )
        assert answer.location == "/admin/claims/department?done=saved"
        shown = await page(browser, "/admin/claims/preview?person=ada&client=web")
        assert content(shown, "userinfo")["department"] == "here"
        form = await page(browser, "/admin/claims/department/edit")
        assert re.search(r'<option value="constant:"\s+selected', form.body)
        assert re.search(r'name="argument"[^>]*value="here"', form.body)
        gone = await do(browser, "/admin/claims/department/delete")
        assert gone.location == "/admin/claims?done=delete"
        shown = await page(browser, "/admin/claims/preview?person=ada&client=web")
        assert "department" not in content(shown, "id-token")
        assert (await browser.get("/admin/claims/department/edit")).status == 404

    run(tmp_path, story)


def test_preview_has_the_lifetime_of_the_app_s_own_tokens(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web", access_token_lifetime=minutes(5))
        browser = await administrator(it)
        shown = await page(browser, "/admin/claims/preview?person=ada&client=web")
        token = content(shown, "access-token")
        assert isinstance(token["exp"], int)
        assert isinstance(token["iat"], int)
        assert token["exp"] - token["iat"] == minutes(5)

    run(tmp_path, story)


def test_attribute_that_a_claim_uses_is_not_deleted(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it)
        await do(browser, "/admin/attributes/new", name="a1", schema="")
        name = "https://x.example/a1"
        await do(browser, "/admin/claims/new", name=name, **claim("attribute:a1", "userinfo"))
        refused = await do(browser, "/admin/attributes/a1/delete")
        assert refused.status == 400
        assert "Claims come from this attribute; remove them first" in refused.body
        removed = await do(browser, "/admin/claims/https%3A%2F%2Fx.example%2Fa1/delete")
        assert removed.status == 303
        assert (await do(browser, "/admin/attributes/a1/delete")).status == 303
        assert not await it.read(lambda tx: tx.attributes())

    run(tmp_path, story)


def test_invalid_declarations_are_explained_and_change_nothing(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it)
        await do(browser, "/admin/attributes/new", name="a1", label="First", schema=TEXT)
        for fields, message in (
            (
                {"name": "a1", "label": "Second"},
                "Must be another one: this one is taken or cannot be used.",
            ),
            ({"name": "", "label": "x"}, "Must be a letter, then at most 39 letters"),
            ({"name": "a b"}, "a letter, then"),
            ({"name": "ä"}, "taken or cannot be used"),
            ({"name": "b", "schema": "[1"}, "Must be valid JSON."),
            ({"name": "b", "schema": "[1]"}, "Enter a JSON object."),
            (
                {"name": "b", "schema": '{"enum": [1], "enum": [2]}'},
                "in a JSON object only once",
            ),
            ({"name": "b", "schema": "[" * 9_000}, "<bdi>32</bdi> levels"),
            ({"name": "b", "schema": '{"const": 1e999}'}, "Use smaller numbers"),
            (
                {"name": "b", "schema": '{"type": "nonsense"}'},
                "Schema cannot be used: <bdi>",
            ),
            (
                {"name": "b", "schema": "{}", "editable": "yes"},
                "types in the schema: <bdi>",
            ),
        ):
            answer = await do(browser, "/admin/attributes/new", **fields)
            assert (answer.status, message in answer.body) == (400, True), (fields, answer.body)
        for name, source, places, message in (
            ("sub", "groups", ["id_token"], "<bdi>sub</bdi> is a standard claim"),
            ("c", "constant:", ["id_token"], "enter its text if it needs one"),
            ("c", "groups", [], "Must not be empty."),
        ):
            answer = await do(browser, "/admin/claims/new", name=name, **claim(source, *places))
            assert (answer.status, message in answer.body) == (400, True), (name, answer.body)
        wrong = claim("groups", "id_token")
        answer = await do(browser, "/admin/claims/new", name="c", clients="x", **wrong)
        assert (answer.status, "Must be the name or client ID of an app." in answer.body) == (
            400,
            True,
        )
        attributes = await it.read(lambda tx: tx.attributes())
        assert [attribute.label for attribute in attributes] == ["First"]
        assert not await it.read(lambda tx: tx.claims())
        for path in ("none/edit", "none/delete", "a1/nonsense", "%00/edit", "%ff/delete"):
            assert (await browser.get(f"/admin/attributes/{path}")).status == 404, path

    run(tmp_path, story)


def test_stale_form_is_not_saved(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it)
        await do(browser, "/admin/attributes/new", name="a1", label="First", schema=TEXT)
        old = await page(browser, "/admin/attributes/a1/edit")
        await do(browser, "/admin/attributes/a1/edit", label="Second")
        stale = await browser.submit(old, "do", label="Third")
        assert (stale.status, "changed while you edited it" in stale.body) == (400, True)
        declared = await it.read(lambda tx: tx.attributes())
        assert [attribute.label for attribute in declared] == ["Second"]
        assert (await browser.submit(stale, "do", label="Third")).status == 303

    run(tmp_path, story)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("person=nobody&client=web", "User not found."),
        ("person=ada&client=none", "App not found."),
        ("person=ada&client=", "Enter a client ID."),
        ("person=ada&client=web&api=https%3A%2F%2Fnone.example", "API not found."),
        ("person=ada&client=web&scope=%22", "Enter scope names"),
    ],
)
def test_preview_explains_unknown_input(tmp_path: Path, query: str, said: str) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        browser = await administrator(it, Role.AUDITOR)
        answer = await browser.get(f"/admin/claims/preview?{query}")
        assert (answer.status, said in answer.body) == (200, True), answer.body
        assert 'id="id-token"' not in answer.body

    run(tmp_path, story)


def test_scim_credential_is_created_rotated_and_revoked(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it)
        made = await do(browser, "/admin/scim/new", name="Okta")
        token = re.search(r'<code id="token">([^<]+)</code>', made.body)
        assert made.status == 200
        assert token is not None
        listed = await page(browser, "/admin/scim")
        assert "Okta" in listed.body
        assert token[1] not in listed.body
        (credential,) = await it.read(lambda tx: ScimCredentials.of(tx).usable(5))
        path = f"/admin/scim/{credential.id}"
        assert path in listed.body
        shown = (await page(browser, path)).body
        assert "/scim/v2" in shown
        assert "Never used" in shown
        assert all(f'href="{path}/{act}"' in shown for act in ("rotate", "end"))
        assert token[1] not in shown
        rotated = await do(browser, f"{path}/rotate", previous_lives="0")
        fresh = re.search(r'<code id="token">([^<]+)</code>', rotated.body)
        assert fresh is not None
        assert fresh[1] != token[1]
        assert (await do(browser, f"{path}/end")).location == "/admin/scim?done=end"
        assert not await it.read(lambda tx: ScimCredentials.of(tx).usable(5))
        for gone in (path, f"{path}/end"):
            assert (await browser.get(gone)).status == 404
        assert (await do(browser, "/admin/scim/new", name="")).status == 400

    run(tmp_path, story)


def test_attributes_of_user_are_edited_and_removed(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it)
        assert (await browser.get("/admin/users/1001/attributes")).status == 404
        await do(browser, "/admin/attributes/new", name="level", schema='{"type": "integer"}')
        await do(browser, "/admin/attributes/new", name="tags", schema='{"type": "array"}')
        form = "/admin/users/1001/attributes"
        await do(browser, form, attribute_level="3", attribute_tags='["a"]')
        user = await it.read(lambda tx: tx.users.find(ADA))
        assert user is not None
        assert user.attributes.values == {"level": 3, "tags": ["a"]}
        for level, tags, message in (
            ("many", "", "Must be a whole number."),
            ("", "[1", "valid JSON"),
            ("", '"x"', "Must be a list."),
            ("", '[{"a": 1, "a": 2}]', "in a JSON object only once"),
            ("", "[" * 8_000, "<bdi>32</bdi> levels"),
            ("", r'["\ud800"]', "Remove U+0000 and lone surrogates"),
        ):
            answer = await do(browser, form, attribute_level=level, attribute_tags=tags)
            assert (answer.status, message in answer.body) == (400, True), (
                level,
                tags,
                answer.body,
            )
        await do(browser, form, attribute_level="", attribute_tags='["b"]')
        user = await it.read(lambda tx: tx.users.find(ADA))
        assert user is not None
        assert user.attributes.values == {"tags": ["b"]}

    run(tmp_path, story)


def test_claims_are_searched_and_may_have_any_name(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it)
        for name in ("new", "preview", "https://x.example/tier", "department"):
            made = await do(browser, "/admin/claims/new", name=name, **claim("groups", "id_token"))
            shown = await page(browser, made.location)
            assert f'<bdi class="long">{name}</bdi>' in shown.body, shown.body
            assert "Groups of the user" in shown.body
            assert f'{made.location.partition("?")[0]}/delete"' in shown.body
        body = (await browser.get("/admin/claims", q="TIER")).body
        assert "https://x.example/tier" in body
        assert "department" not in body.split("<table")[1]
        assert "No claim found" in (await browser.get("/admin/claims", q="none")).body

    run(tmp_path, story)


def test_reader_sees_declarations_and_may_change_nothing(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it)
        await do(browser, "/admin/attributes/new", name="a1", schema=TEXT)
        await do(browser, "/admin/scim/new", name="Okta")
        browser = await administrator(it, Role.AUDITOR)
        assert '"/admin/attributes/a1"' in (await page(browser, "/admin/attributes")).body
        assert "/admin/attributes/a1/" not in (await page(browser, "/admin/attributes/a1")).body
        (credential,) = await it.read(lambda tx: ScimCredentials.of(tx).usable(5))
        assert "/rotate" not in (await page(browser, f"/admin/scim/{credential.id}")).body
        for path in (
            "attributes/new",
            "attributes/a1/edit",
            "attributes/a1/delete",
            "claims/new",
            "scim/new",
            "users/1001/attributes",
        ):
            assert (await browser.get(f"/admin/{path}")).status == 404, path

    run(tmp_path, story)


def test_repeated_forms_do_not_grow_the_cache(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it)
        kept = list[int]()
        for _ in range(3):
            for kind in ("claims", "attributes"):
                assert (await browser.get(f"/admin/{kind}/new")).status == 200
            kept.append(_declared.cache_info().currsize)
        assert kept[1:] == kept[:1] * 2

    run(tmp_path, story)
