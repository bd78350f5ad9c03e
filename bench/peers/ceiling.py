"""The ceiling: endpoints of the same shape, written by hand on the same stack as Valetkey.

One parses a form, checks a client's secret, signs a JWT by ES256 and answers in JSON; nothing is
stored, no rule is asked, no event written. One answers with a constant. What Valetkey does on the
same workload, divided by this, is what its promises leave of the stack.
"""

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager

from bench.peers.peer import Peer
from bench.servers import program
from bench.workloads import SECRET
from valetkey.kernel.jose.access_token import AccessToken
from valetkey.kernel.jose.key import KeySet, SigningKey
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import Refusal
from valetkey.kernel.runtime import SYSTEM
from valetkey.kernel.scope import Scope
from valetkey.kernel.secret import FingerprintKey, fresh_reference, same
from valetkey.web import listen, log
from valetkey.web.body import read_form
from valetkey.web.connection.bind import bind
from valetkey.web.exchange import Request, Response, json_response
from valetkey.web.router import Body, Route, RoutedApp

NAME = "ceiling"
_SECONDS = 600


@contextmanager
def ceiling() -> Generator[Peer]:
    """It, in a process of its own."""
    # Its log has a line for every request.
    with program(NAME, "bench.peers.ceiling", stderr=subprocess.DEVNULL) as peer:
        yield peer


def _app(url: str, host: str) -> RoutedApp:
    key, fingerprints = SigningKey.generate(), FingerprintKey(bytes(32))
    secrets = {"service": fingerprints.fingerprint("client", SECRET)}
    document = Response(
        200, KeySet.of(key.public).document(), (("content-type", "application/jwk-set+json"),)
    )

    def refuse(request: Request, refusal: Refusal) -> Response:
        return Response(404)

    async def token(request: Request) -> Response:
        form = read_form(request.body)
        client_id = form.get("client_id") or ""
        offered = fingerprints.fingerprint("client", form.get("client_secret") or "")
        if not same(offered, secrets.get(client_id, "")):
            return Response(401)
        now = request.at
        claims = AccessToken(
            issuer=url,
            subject=client_id,
            client_id=client_id,
            audience="https://api.example",
            scope=Scope(),
            token_id=fresh_reference(SYSTEM.random),
            issued_at=now,
            expires_at=Instant(now + _SECONDS),
            grant_id=None,
            auth_time=None,
        )
        return json_response(
            {"access_token": claims.sign(key), "token_type": "Bearer", "expires_in": _SECONDS}
        )

    async def keys(request: Request) -> Response:
        return document

    routes = [
        Route("/token", {"POST": token}, refuse, Body.FORM),
        Route("/jwks", {"GET": keys}, refuse),
    ]
    return RoutedApp(routes, runtime=SYSTEM, refuse=refuse, hosts={host})


def main() -> None:
    """Answer at the port that the command line names until SIGTERM."""
    host = f"127.0.0.1:{sys.argv[1]}"
    log.set_up("info", "json")
    sockets = [bind("127.0.0.1", int(sys.argv[1]))]
    app = _app(f"http://{host}", host)
    listen.run(listen.serve(app, sockets=sockets, on_ready=lambda: None))


if __name__ == "__main__":
    main()
