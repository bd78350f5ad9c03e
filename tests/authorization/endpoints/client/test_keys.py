"""The key set: who reads it as rarely as it says may do so verifies everything (security 15)."""

import asyncio
import re
from dataclasses import dataclass
from pathlib import Path

from tests.support.harness import Harness, harness
from valetkey.authorization.model.event.event import SYSTEM
from valetkey.config.settings import TokenSettings
from valetkey.kernel.jose import access_token, jwt
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.jose.key import KeySet
from valetkey.kernel.moment import Instant, hours, minutes

_TOKENS = TokenSettings(
    access_token_lifetime=hours(1),
    signing_key_lifetime=hours(1),
    key_publication=minutes(5),
    signing_algorithms=(Algorithm.ES256,),
)


@dataclass
class Patient:
    """An API that fetches the keys when the answer's time is over, and never because of a kid."""

    it: Harness
    known: KeySet
    until: Instant = Instant(0)

    async def takes(self, token: str) -> str:
        """The kid that signed the token; Refused if it does not verify."""
        now = self.it.clock.now
        if now >= self.until:
            answer = await self.it.call("GET", "/oauth/jwks")
            kept = re.search(r"max-age=(\d+)", answer.headers["cache-control"])
            assert kept is not None
            self.known = KeySet.parse(answer.body, ignore_unknown=True)
            self.until = Instant(now + int(kept[1]))
        issuer, audience = self.it.foundation.issuer, self.it.settings.resource.url
        access_token.verify(token, self.known, issuer=issuer, audience=audience, now=now)
        kid = jwt.parse(token, (access_token.TYPE,)).header.kid
        assert kid is not None
        return kid


def test_keys_refreshed_every_five_minutes_verify_every_token_until_expiry(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        async with harness(tmp_path, tokens=_TOKENS) as it:
            await it.client("svc1", grant_types=("client_credentials",))
            patient, signed = Patient(it, KeySet()), set[str]()
            held: list[tuple[Instant, str]] = []
            for step in range(600):
                await it.foundation.keys.maintain(it.clock.now)
                if step % 7 == 6:
                    await it.foundation.keys.rotate(it.clock.now, done_by=SYSTEM)
                token = await it.own_token("svc1")
                signed.add(await patient.takes(token))
                held.append((it.clock.now, token))
                while held[0][0] + hours(1) <= it.clock.now:
                    held.pop(0)
                await patient.takes(held[0][1])
                it.clock.forward(20)
            assert len(signed) > 10

    asyncio.run(story())
