"""/account/security: what opens the account, at a glance."""

from dataclasses import dataclass

from valetkey.authorization.endpoints.account.security.addresses import DEVICES
from valetkey.authorization.endpoints.account.visit import visit
from valetkey.authorization.endpoints.visitor.site import Site
from valetkey.authorization.pages.account.security.overview import (
    DeviceLine,
    Done,
    PasskeyLine,
    SecurityPage,
)
from valetkey.authorization.pages.visitor.when import When
from valetkey.authorization.sign_in.user_agent import browser_of
from valetkey.authorization.storage.transaction import Transaction
from valetkey.web.exchange import Request, Response
from valetkey.web.form import read_query


@dataclass(frozen=True, slots=True)
class SecurityEndpoint:
    """The page from which everything about it is changed."""

    site: Site

    async def get(self, request: Request) -> Response:
        """The page. What it says was done is what the last page did, and changes nothing."""
        seen = await visit(self.site, request)
        if isinstance(seen, Response):
            return seen
        user, now = seen.signed_in.user, request.at
        here = self.site.cookies.device.read(request).partition(".")[0]
        done = read_query(request.query).get("done") or ""

        def look(tx: Transaction) -> SecurityPage:
            since = tx.users.password_set_at(user.uid)
            authenticator = tx.credentials.authenticator_of(user.uid)
            recovery = tx.credentials.recovery_codes_of(user.uid)
            passkeys = tuple(
                PasskeyLine(
                    id=each.id,
                    name=each.name,
                    synced=each.synced,
                    since=When(each.created_at, now),
                    last_used=None if each.last_used_at is None else When(each.last_used_at, now),
                )
                for each in tx.credentials.passkeys_of(user.uid)
            )
            devices = tuple(
                DeviceLine(
                    each.id,
                    *browser_of(each.user_agent),
                    When(each.changed_at, now),
                    here=each.id == here,
                )
                for each in tx.devices.of(user.uid, now)
            )
            return SecurityPage(
                csrf=seen.csrf,
                devices_action=DEVICES,
                password_since=None if since is None else When(since, now),
                passkeys=passkeys,
                can_have_passkeys=bool(self.site.factors.passkeys.domain),
                authenticator_since=None
                if authenticator is None
                else When(authenticator.created_at, now),
                recovery_left=recovery.left,
                devices=devices,
                elsewhere=len(tx.identities.of_user(user.uid)) if self.site.is_federated else None,
                done=Done(done) if done in set(Done) else None,
            )

        page = await self.site.store.scan(look)
        return self.site.page(request, page, user=user, headers=seen.headers)
