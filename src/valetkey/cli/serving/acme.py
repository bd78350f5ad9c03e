"""Get one certificate from an authority by ACME (RFC 8555), with the challenge tls-alpn-01.

A program of its own: `python -m valetkey.cli.serving.acme CONFIGURATION SERVER`. It ends at once
while another process renews the same certificate.
"""

import asyncio
import fcntl
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from subprocess import DEVNULL
from typing import cast
from urllib.parse import urlsplit

from valetkey.cli.say import Exit
from valetkey.config.environment import environment
from valetkey.config.load import load
from valetkey.config.paths import acme_file, failed_orders, uses_acme
from valetkey.config.settings import ServerSettings, Settings
from valetkey.fetch.certificate import fresh_key, is_renewal_due, private_key, self_signed
from valetkey.kernel.keyring import create_or_read_secret_file, replace_secret_file
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.runtime import SYSTEM
from valetkey.kernel.secret import to_base64url
from valetkey.web import log

_LOOK_EVERY = 60.0  # seconds
_PLACEHOLDER_DAYS = 7
_FIRST_RETRY = 300  # seconds; authorities allow few failed validations in an hour
_LONGEST_RETRY = 21_600
_LONGEST_RENEWAL = 300.0  # seconds
_MOST_DOUBLINGS = 10


def host_of(server: ServerSettings) -> str:
    """Return the host name for which this server needs a certificate."""
    return urlsplit(server.url).hostname or ""


def challenge_file(settings: Settings, server: ServerSettings) -> Path | None:
    """Return the file whose certificate answers a pending challenge; None without ACME."""
    return acme_file(settings, server, "challenge") if uses_acme(settings, server) else None


def prepare(settings: Settings, server: ServerSettings) -> None:
    """Write a self-signed certificate if there is none, so that TLS can start."""
    if uses_acme(settings, server):
        create_or_read_secret_file(
            acme_file(settings, server, "pem"),
            lambda: self_signed(host_of(server), SYSTEM.now(), days=_PLACEHOLDER_DAYS),
        )


def is_due(settings: Settings, server: ServerSettings, now: Instant) -> bool:
    """Return whether to contact the authority now; after failures at growing intervals."""
    try:
        pem = acme_file(settings, server, "pem").read_bytes()
    except OSError:
        pem = b""
    failures, last = failed_orders(settings, server)
    wait = (
        min(_LONGEST_RETRY, _FIRST_RETRY << min(failures - 1, _MOST_DOUBLINGS)) if failures else 0
    )
    return now >= last + wait and is_renewal_due(pem, host_of(server), now)


def _trusting(settings: Settings) -> Mapping[str, str]:
    """Return the environment that makes the library trust the authority's own certificate."""
    file = settings.tls.acme_ca_file
    path = str(settings.source.directory / file)
    return {**environment(), "REQUESTS_CA_BUNDLE": path} if file else environment()


async def renew(settings: Settings, server: ServerSettings) -> None:
    """Renew this server's certificate whenever it is due; workers notice the new file."""
    name = "authorization" if server is settings.authorization else "resource"
    command = ("-P", "-m", "valetkey.cli.serving.acme", str(settings.source.file or ""), name)
    while True:
        if is_due(settings, server, SYSTEM.now()):
            process = await asyncio.create_subprocess_exec(
                sys.executable, *command, stdin=DEVNULL, env=_trusting(settings)
            )
            try:
                await asyncio.wait_for(process.wait(), _LONGEST_RENEWAL)
            except (TimeoutError, asyncio.CancelledError) as ended:
                with suppress(ProcessLookupError):
                    process.kill()
                if isinstance(ended, asyncio.CancelledError):
                    raise
        await asyncio.sleep(_LOOK_EVERY)


_WITHIN = timedelta(seconds=120)
_CHALLENGE = "tls-alpn-01"


class NoChallengeOffered(Exception):
    """The authority offers no challenge that this server supports."""


def main(file: str, name: str) -> int:
    """Renew the certificate of the server `name` if it is due and no other process does."""
    settings = load(Path(file) if file else None, environment())
    log.set_up(settings.log.level, settings.log.format)
    server = settings.authorization if name == "authorization" else settings.resource
    with _alone(acme_file(settings, server, "lock")) as is_alone:
        if not is_alone or not is_due(settings, server, SYSTEM.now()):
            return Exit.OK
        return _renew(settings, server)


def _renew(settings: Settings, server: ServerSettings) -> int:
    host, failure = host_of(server), acme_file(settings, server, "failed")
    if find_spec("acme") is None:
        reason = "tls.acme needs its library: pip install 'valetkey[acme]'"
    else:
        try:
            pem = _ordered(settings, server, host)
        except Exception as problem:  # noqa: BLE001 - any error is logged, and the server continues
            reason = f"{type(problem).__name__}: {problem}"
        else:
            replace_secret_file(acme_file(settings, server, "pem"), pem)
            failure.unlink(missing_ok=True)
            log.info("certificate.issued", host=host, authority=settings.tls.acme)
            return Exit.OK
    count, _ = failed_orders(settings, server)
    replace_secret_file(failure, f"{count + 1} {SYSTEM.now()}\n")
    log.error("certificate.not_issued", host=host, authority=settings.tls.acme, reason=reason)
    return Exit.FAILED


def _ordered(settings: Settings, server: ServerSettings, host: str) -> str:
    """Order a certificate, prove the host name, and return key and chain as one PEM text."""
    from acme import challenges, client, crypto_util, errors, messages  # noqa: PLC0415 - an extra
    from josepy.jwa import ES256  # noqa: PLC0415 - the same
    from josepy.jwk import JWKEC  # noqa: PLC0415 - the same

    tls, folder = settings.tls, settings.source.directory
    account_pem = create_or_read_secret_file(folder / tls.acme_folder / "account.pem", fresh_key)
    account = JWKEC(key=private_key(account_pem))
    network = client.ClientNetwork(
        account, alg=ES256, user_agent=f"valetkey/{version('valetkey')}", timeout=30
    )
    authority = client.ClientV2(client.ClientV2.get_directory(tls.acme, network), network)
    try:
        registration = messages.NewRegistration.from_data(
            email=tls.acme_email or None, terms_of_service_agreed=True
        )
        authority.new_account(registration)
    except errors.ConflictError as conflict:
        network.account = messages.RegistrationResource(
            uri=conflict.location, body=messages.Registration()
        )
    key = fresh_key()
    order = authority.new_order(crypto_util.make_csr(key.encode(), [host]))
    thumbprint = to_base64url(account.thumbprint())
    file = acme_file(settings, server, "challenge")
    try:
        for authorization in cast("Sequence[messages.AuthorizationResource]", order.authorizations):
            if authorization.body.status == messages.STATUS_VALID:
                continue
            challenged = cast("Sequence[messages.ChallengeBody]", authorization.body.challenges)
            offered = {
                str(challenge.chall.to_json()["type"]): challenge for challenge in challenged
            }
            if _CHALLENGE not in offered:
                raise NoChallengeOffered(f"{tls.acme} does not offer {_CHALLENGE}")
            chosen = offered[_CHALLENGE]
            proof = f"{chosen.chall.to_json()['token']}.{thumbprint}"
            replace_secret_file(file, self_signed(host, SYSTEM.now(), days=1, challenge=proof))
            answer = challenges.KeyAuthorizationChallengeResponse(key_authorization=proof)
            authority.answer_challenge(chosen, answer)
        # acme compares with the local time of its own clock.
        until = datetime.now() + _WITHIN  # noqa: DTZ005, TID251
        issued = authority.poll_and_finalize(order, until)
    finally:
        file.unlink(missing_ok=True)
    return key + str(issued.fullchain_pem)


@contextmanager
def _alone(file: Path) -> Generator[bool]:
    """Hold the lock on `file`; yield whether this process has it."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with file.open("ab") as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:]))
    except OperatorError as error:
        log.error("certificate.not_issued", reason=str(error))
        sys.exit(Exit.INVALID)
