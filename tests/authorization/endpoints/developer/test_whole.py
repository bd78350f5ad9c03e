"""The portal in the server as it is built: what is done there counts at the token endpoint."""

from pathlib import Path

from tests.authorization.endpoints.developer.developers import WEB_APP, shown, text_of
from tests.support.harness import ADA, Harness, run
from tests.support.plain_browser import Browser
from valetkey.authorization.model.client import TeamRole
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import hours
from valetkey.kernel.replace import replace

_WORD = "a good long password"


async def _developer(it: Harness) -> Browser:
    """Ada, whose address is verified, signed in."""

    def verified(tx: Transaction) -> None:
        ada = tx.users.find(ADA)
        assert ada is not None
        assert tx.users.change(replace(ada, email_verified_at=it.clock.now))

    await it.write(verified)
    await it.password(_WORD)
    browser = Browser(it.app, host="localhost:8400", scheme="http")
    page = await browser.get("/oauth/sign-in")
    answer = await browser.submit(page, "sign-in", username="ada", password=_WORD)
    assert answer.location == "/", answer.body
    return browser


def test_a_secret_is_registered_replaced_without_an_outage_and_ended(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        ada = await _developer(it)
        form = await ada.get("/developer/new", kind="server")
        values = {**WEB_APP, "grant_types": ["authorization_code", "client_credentials"]}
        page = await ada.submit(form, "do", **values)
        app, old = shown(page, "client-id"), shown(page, "client-secret")

        async def works(secret: str) -> bool:
            parameters = {"grant_type": "client_credentials", "client_secret": secret}
            return (await it.token(app, **parameters)).status == 200

        assert await works(old)
        path = f"/developer/apps/{app}/secrets"
        page = await ada.submit(await ada.get(path), "new-secret", overlap="1h")
        new = shown(page, "client-secret")
        assert await works(new)
        assert await works(old)
        it.clock.forward(hours(1))
        assert not await works(old)
        assert await works(new)
        ada = await _developer(it)
        (active_secret,) = await it.read(lambda tx: tx.secrets.usable(app, it.clock.now))
        await ada.submit(await ada.get(f"{path}/end", secret=active_secret.id), "end-secret")
        assert not await works(new)

    run(tmp_path, story)


def test_deleted_app_gets_no_tokens_and_is_in_the_revocation_feed(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        ada = await _developer(it)
        form = await ada.get("/developer/new", kind="machine")
        page = await ada.submit(form, "do", name="Robot")
        app, secret = shown(page, "client-id"), shown(page, "client-secret")
        parameters = {"grant_type": "client_credentials", "client_secret": secret}
        assert (await it.token(app, **parameters)).status == 200
        team = await it.read(lambda tx: tx.members.team(app))
        assert [one.role for one in team] == [TeamRole.OWNER]
        page = await ada.get(f"/developer/apps/{app}/delete")
        done = await ada.submit(page, "delete", name="Robot")
        assert "No apps yet" in text_of(await ada.get(done.location))
        (await it.token(app, **parameters)).refused(401, "invalid_client")
        assert app in (await it.feed()).body.decode()

    run(tmp_path, story)
