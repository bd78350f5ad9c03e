"""The authorization endpoint, as a browser and the app behind it see it."""

from tests.authorization.visitor.world import World, run


def test_a_person_signs_in_allows_and_the_app_gets_a_code(sqlite_url: str) -> None:
    async def story(it: World) -> None:
        alice = it.browser()
        page = await alice.ask()
        assert page.status == 200
        assert "Notes Printer" in page.body
        page = await alice.sign_in(page)
        assert page.status == 200, page.body
        assert "read your notes" in page.body
        answer = await alice.allow(page)
        assert answer.status == 303, answer.body
        assert answer.location.startswith("https://app.example/cb?code=vk_ac_")
        assert answer.told["state"] == "xyz"
        assert answer.told["iss"] == "https://auth.example"
        assert sorted(await it.events()) == sorted(
            ["session.started", "consent.given", "code.issued"]
        )

    run(sqlite_url, story)
