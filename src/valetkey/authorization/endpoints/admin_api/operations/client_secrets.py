"""The secrets of clients: one more, and the end of one."""

from typing import cast

from valetkey.authorization.deeds.admin.permissions import Permission
from valetkey.authorization.endpoints.admin_api.operation import Call, Desk, Operation, Told
from valetkey.authorization.endpoints.admin_api.operations.clients import desk_of
from valetkey.authorization.endpoints.admin_api.shapes.clients import SecretMade, SecretWanted
from valetkey.kernel.moment import Lifetime
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.secret import Prefix, fresh_secret

_ONE = "/clients/{client_id}"


async def _issue_secret(desk: Desk, call: Call) -> Told:
    client_id, wanted = call.named("client_id"), cast("SecretWanted", call.body)
    secret = fresh_secret(Prefix.CLIENT_SECRET, desk.random)
    live = None if wanted.others_live is None else Lifetime(wanted.others_live)
    faults = await desk.store.write(
        lambda tx: desk_of(desk).issue_secret(
            tx, call.actor, client_id, secret, call.now, others_live=live
        ),
        done_by=call.actor.done_by,
    )
    if faults:
        raise Refused(Refusal(ErrorCode.CONFLICT, faults[0].detail, "admin.no_secret"))
    return Told(SecretMade(secret.reveal()))


async def _end_secret(desk: Desk, call: Call) -> Told:
    client_id, secret_id = call.named("client_id"), call.named("secret_id")
    if not await desk.store.write(
        lambda tx: desk_of(desk).end_secret(tx, call.actor, client_id, secret_id, call.now),
        done_by=call.actor.done_by,
    ):
        raise Refused(
            Refusal(ErrorCode.NOT_FOUND, "there is no such secret that works", "admin.secret")
        )
    return Told()


SECRETS = (
    Operation(
        "issue_client_secret",
        "POST",
        f"{_ONE}/secrets",
        Permission.CLIENTS,
        "One more secret, shown this once",
        _issue_secret,
        takes=SecretWanted,
        gives=SecretMade,
        status=201,
        refuses=(404, 409),
    ),
    Operation(
        "end_client_secret",
        "DELETE",
        f"{_ONE}/secrets/{{secret_id}}",
        Permission.CLIENTS,
        "End one of its secrets now",
        _end_secret,
        status=204,
        refuses=(404,),
    ),
)
