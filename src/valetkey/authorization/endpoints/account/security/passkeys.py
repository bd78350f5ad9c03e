"""/account/security/passkeys: a new one, another name for one, and its end."""

from dataclasses import dataclass

from valetkey.authorization.deeds.account.factors import (
    FreshCodes,
    add_passkey,
    is_only_way_in,
    name_fault,
    remove_passkey,
    rename_passkey,
)
from valetkey.authorization.deeds.account.notices import WayIn
from valetkey.authorization.endpoints.account.security.addresses import (
    NEW_PASSKEY,
    PASSKEY,
    REMOVE_PASSKEY,
    SECURITY,
)
from valetkey.authorization.endpoints.account.security.recovery import codes_page
from valetkey.authorization.endpoints.account.security.secured import (
    proof_on_the_way,
    secured,
    secured_form,
    still_there,
)
from valetkey.authorization.endpoints.account.visit import Visit, nothing_there
from valetkey.authorization.endpoints.visitor.site import Site
from valetkey.authorization.model.account.factors import Passkey
from valetkey.authorization.model.event.actor import by_user
from valetkey.authorization.pages.account.security.passkeys.passkey import (
    NewPasskeyPage,
    PasskeyPage,
)
from valetkey.authorization.pages.account.security.remove import Removed, RemovePage
from valetkey.authorization.pages.visitor.when import When
from valetkey.authorization.protocol.claims import Method
from valetkey.authorization.sign_in.user_agent import browser_of
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.secret import fresh_id
from valetkey.web.exchange import Request, Response

_BAD_REQUEST = 400
_OPAQUE = ("name", "credential")


@dataclass(frozen=True, slots=True)
class PasskeysEndpoint:
    """The passkeys of who is signed in."""

    site: Site

    async def new(self, request: Request) -> Response:
        """The page on which the browser makes one."""
        seen = await secured(self.site, request)
        if isinstance(seen, Response):
            return seen
        if not self.site.factors.passkeys.domain:
            return self.site.goes_to(SECURITY)
        browser, system = browser_of(request.headers.get("user-agent") or "")
        return await self._new_page(request, seen, system or browser)

    async def add(self, request: Request) -> Response:
        """Keep it, and show recovery codes with the first factor of the account."""
        found = await secured_form(self.site, request, _OPAQUE)
        if isinstance(found, Response):
            return found
        seen, form = found
        site, now = self.site, request.at
        name = (form.get("name") or "").strip()
        if name_fault(name):
            return await self._new_page(request, seen, name, wrong_name=True)
        bound = site.cookies.browser_print(site.cookies.browser(request)) or ""
        made = site.factors.passkeys.registered(
            form.get("credential") or "", seen.signed_in.user, bound, now
        )
        if made is None:
            return await self._new_page(request, seen, name, failed=True)
        fresh, passkey_id = FreshCodes.draw(site.random), fresh_id("cr", site.random)
        proof = proof_on_the_way(site, request)
        key = site.keyring.fingerprint_key
        kind = Method.SOFTWARE_KEY if made.synced else Method.HARDWARE_KEY
        methods = (kind.value, Method.USER_VERIFIED.value, Method.SEVERAL.value)

        def work(tx: Transaction) -> tuple[tuple[str, ...], bool] | None:
            user = still_there(tx, site, seen, now)
            codes = add_passkey(tx, user, name, made, passkey_id, fresh, key, now)
            if codes is None:
                return None
            if site.notices is not None:
                site.notices.way_in_added(tx, user, WayIn.PASSKEY, now)
            return codes, proof.note(tx, request, seen, methods)

        done = await site.store.write(work, done_by=by_user(seen.signed_in.user.uid))
        if done is None:
            return await self._new_page(request, seen, name, failed=True)
        codes, noted = done
        shown = proof.shown(seen) if noted else seen
        if codes:
            return codes_page(site, request, shown, codes)
        return site.goes_to(f"{SECURITY}?done=passkey-added", *shown.headers)

    async def one(self, request: Request) -> Response:
        """Its name, and the way to its end."""
        seen = await secured(self.site, request)
        if isinstance(seen, Response):
            return seen
        passkey = await self._find(request, seen)
        return self._page(request, seen, passkey, passkey.name)

    async def rename(self, request: Request) -> Response:
        """Call it something else."""
        found = await secured_form(self.site, request, _OPAQUE)
        if isinstance(found, Response):
            return found
        seen, form = found
        now, name = request.at, (form.get("name") or "").strip()
        passkey = await self._find(request, seen)
        if name_fault(name):
            return self._page(request, seen, passkey, name, wrong_name=True)
        renamed = await self.site.store.write(
            lambda tx: rename_passkey(
                tx, still_there(tx, self.site, seen, now), passkey.id, name, now
            ),
            done_by=by_user(seen.signed_in.user.uid),
        )
        if not renamed:
            raise nothing_there("passkey")
        return self.site.goes_to(f"{SECURITY}?done=passkey-renamed")

    async def ask_to_remove(self, request: Request) -> Response:
        """The question before it opens nothing any more."""
        seen = await secured(self.site, request)
        if isinstance(seen, Response):
            return seen
        passkey, user = await self._find(request, seen), seen.signed_in.user

        def look(tx: Transaction) -> tuple[bool, bool]:
            others = len(tx.credentials.passkeys_of(user.uid)) > 1
            last = not others and tx.credentials.authenticator_of(user.uid) is None
            return last, is_only_way_in(tx, user)

        last, only = await self.site.store.read(look)
        action = REMOVE_PASSKEY.replace("{id}", passkey.id)
        page = RemovePage(
            action, seen.csrf, Removed.PASSKEY, name=passkey.name, last=last, impossible=only
        )
        return self.site.page(request, page, user=user, headers=seen.headers)

    async def remove(self, request: Request) -> Response:
        """Remove it."""
        found = await secured_form(self.site, request)
        if isinstance(found, Response):
            return found
        seen, now = found[0], request.at
        passkey = await self._find(request, seen)
        removed = await self.site.store.write(
            lambda tx: remove_passkey(tx, still_there(tx, self.site, seen, now), passkey.id, now),
            done_by=by_user(seen.signed_in.user.uid),
        )
        if not removed:
            return self.site.goes_to(REMOVE_PASSKEY.replace("{id}", passkey.id))
        return self.site.goes_to(f"{SECURITY}?done=passkey-removed")

    async def _find(self, request: Request, seen: Visit) -> Passkey:
        wanted, uid = request.arguments["id"], seen.signed_in.user.uid
        passkeys = await self.site.store.read(lambda tx: tx.credentials.passkeys_of(uid))
        found = next((each for each in passkeys if each.id == wanted), None)
        if found is None:
            raise nothing_there("passkey")
        return found

    async def _new_page(
        self,
        request: Request,
        seen: Visit,
        name: str,
        *,
        wrong_name: bool = False,
        failed: bool = False,
    ) -> Response:
        site, user = self.site, seen.signed_in.user
        present = await site.store.read(lambda tx: tx.credentials.passkeys_of(user.uid))
        browser, more = site.browser(request)
        bound = site.cookies.browser_print(browser) or ""
        page = NewPasskeyPage(
            action=NEW_PASSKEY,
            csrf=seen.csrf,
            options=site.factors.passkeys.ask_to_register(user, present, bound, request.at),
            name=name,
            wrong_name=wrong_name,
            failed=failed,
        )
        status = _BAD_REQUEST if wrong_name or failed else 200
        headers = tuple(dict.fromkeys((*seen.headers, *more)))
        return site.page(request, page, status, user=user, headers=headers)

    def _page(
        self,
        request: Request,
        seen: Visit,
        passkey: Passkey,
        name: str,
        *,
        wrong_name: bool = False,
    ) -> Response:
        used = passkey.last_used_at
        page = PasskeyPage(
            action=PASSKEY.replace("{id}", passkey.id),
            csrf=seen.csrf,
            shown_name=passkey.name,
            name=name,
            since=When(passkey.created_at, request.at),
            last_used=None if used is None else When(used, request.at),
            synced=passkey.synced,
            remove=REMOVE_PASSKEY.replace("{id}", passkey.id),
            wrong_name=wrong_name,
        )
        status = _BAD_REQUEST if wrong_name else 200
        return self.site.page(request, page, status, user=seen.signed_in.user, headers=seen.headers)
