"""What happens to APIs, and to the codes of devices."""

from tests.support.harness import Harness
from tests.support.plain_browser import Browser
from valetkey.authorization.apis.operations import APIS, ApiChange, ApiWanted
from valetkey.authorization.model.client import GrantTypeName
from valetkey.kernel.moment import seconds

_DEVICE_CODE = GrantTypeName.DEVICE_CODE.value
_OPERATIONS = {operation.id: operation for operation in APIS}


async def apis(it: Harness) -> None:
    """An API is declared, changed, disabled, enabled and deleted."""
    api = ApiWanted("https://calendar.example", "Calendar", {"calendar:read": "see your calendar"})
    await it.perform(_OPERATIONS["create_api"], {}, api)
    listed = await it.read(lambda tx: tx.apis.page("", 10))
    one = {"api_id": listed[0].id}
    await it.perform(_OPERATIONS["change_api"], one, ApiChange(name="Events"))
    for act in ("disable_api", "enable_api", "delete_api"):
        await it.perform(_OPERATIONS[act], one)


async def devices(it: Harness, word: str, secrets: set[str]) -> None:
    """A user allows two devices; the session of the second ends before it polls."""
    await it.client("tv", type="public", grant_types=(_DEVICE_CODE,), redirect_uris=())
    for status in (200, 400):
        begun = await it.post("/oauth/device-authorization", {"client_id": "tv"})
        browser = Browser(it.app, host="localhost:8400", scheme="http")
        await browser.sign_in(await browser.get("/oauth/sign-in"), "ada", word)
        page = await browser.get(f"/device/{begun.text('user_code')}")
        await browser.submit(page, "allow", decision="allow", shown="yes", scope=["notes:read"])
        if status != 200:
            await browser.submit(await browser.get("/oauth/sign-out"), "sign-out")
        it.clock.forward(seconds(5))
        device_code = begun.text("device_code")
        form = {"grant_type": _DEVICE_CODE, "client_id": "tv", "device_code": device_code}
        answer = await it.post("/oauth/token", form)
        assert answer.status == status, answer.body
        secrets |= {device_code, begun.text("user_code"), *browser.cookies.values()}
