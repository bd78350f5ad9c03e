"""/account/security/passkeys: add a passkey, rename one, remove one."""

from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.actions.account.factors import (
    FreshCodes,
    add_passkey,
    is_only_sign_in_method,
    name_fault,
    remove_passkey,
    rename_passkey,
)
from valetkey.authorization.authentication.browsers import Browsers, browser_of
from valetkey.authorization.authentication.factors import Factors
from valetkey.authorization.email.notices import Notices, SignInMethod
from valetkey.authorization.layout.addresses import ADDRESSES, SECURITY
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.model.user import Passkey
from valetkey.authorization.protocol.claims import Amr
from valetkey.authorization.site.account.security.authenticator import show_codes
from valetkey.authorization.site.account.security.confirm import (
    RecentProof,
    Removed,
    RemovePage,
    back_of,
    require_still_signed_in,
    target_of,
)
from valetkey.authorization.site.page import (
    Act,
    Outcome,
    Page,
    SeeOther,
    Show,
    SignedInRequest,
    confirmed,
    confirmed_to_add_factor,
    not_found,
)
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import fresh_id
from valetkey.kernel.text import translatable

NEW = ADDRESSES["new_passkey"]
PASSKEY = "/account/security/passkeys/{id}"
REMOVE = "/account/security/passkeys/{id}/remove"

_BAD_REQUEST = 400
_OPAQUE = ("name", "credential")


class NewPasskeyPage(Struct, frozen=True):
    """The context of new_passkey.html. Its form posts `csrf`, `name` and `credential`."""

    template: ClassVar[str] = "account/security/new_passkey.html"
    title: ClassVar[str] = translatable("Add a passkey")
    scripts: ClassVar[tuple[str, ...]] = ("passkey.js",)

    action: str
    #: The options of the browser's API, as JSON.
    options: str
    #: The suggested name, or the one that was typed.
    name: str
    wrong_name: bool = False
    failed: bool = False
    #: The page that requires a second factor; "" if none is required.
    back: str = ""


class PasskeyPage(Struct, frozen=True):
    """The context of passkey.html.

    Its form posts `csrf` and `name`; `remove` is the address of the confirmation.
    """

    template: ClassVar[str] = "account/security/passkey.html"

    action: str
    shown_name: str
    name: str
    since: When
    last_used: When | None
    synced: bool
    remove: str
    wrong_name: bool = False


class PasskeyPages(Struct, frozen=True):
    """Add, rename and remove the passkeys of the signed-in user."""

    store: Store
    browsers: Browsers
    factors: Factors
    notices: Notices

    def pages(self) -> tuple[Page[SignedInRequest], ...]:
        """Return the pages of this feature."""
        return (
            Page(NEW, confirmed_to_add_factor, self.show_new, Act(self.add, opaque=_OPAQUE)),
            Page(PASSKEY, confirmed, self.show, Act(self.rename, opaque=_OPAQUE)),
            Page(REMOVE, confirmed, self.ask_to_remove, Act(self.remove)),
        )

    async def show_new(self, request: SignedInRequest) -> Outcome:
        """Show the page on which the browser creates a passkey."""
        if not self.factors.passkeys.domain:
            return SeeOther(SECURITY)
        browser, system = browser_of(request.request.headers.get("user-agent") or "")
        return await self._new(request, system or browser)

    async def add(self, request: SignedInRequest) -> Outcome:
        """Store the passkey; show recovery codes for the first factor of the account."""
        now = request.now
        name = (request.form.get("name") or "").strip()
        if name_fault(name):
            return await self._new(request, name, wrong_name=True)
        bound = self.browsers.cookies.browser_fingerprint(request.browser) or ""
        made = self.factors.passkeys.registered(
            request.form.get("credential") or "", request.user, bound, now
        )
        if made is None:
            return await self._new(request, name, failed=True)
        fresh, passkey_id = (
            FreshCodes.draw(self.browsers.random),
            fresh_id("cr", self.browsers.random),
        )
        proof = RecentProof.for_request(self.browsers, request)
        key = self.browsers.keyring.fingerprint_key
        kind = Amr.SOFTWARE_KEY if made.synced else Amr.HARDWARE_KEY
        methods = (kind.value, Amr.USER_VERIFIED.value, Amr.SEVERAL.value)

        def add(tx: Transaction) -> tuple[tuple[str, ...], bool] | None:
            user = require_still_signed_in(tx, self.browsers, request)
            session_id = request.session.id
            codes = add_passkey(
                tx, user, name, made, passkey_id, fresh, key, now, session_id=session_id
            )
            if codes is None:
                return None
            self.notices.sign_in_method_added(tx, user, SignInMethod.PASSKEY, now)
            return codes, proof.record(tx, methods)

        added = await self.store.write(add, done_by=request.actor)
        if added is None:
            return await self._new(request, name, failed=True)
        codes, noted = added
        cookies = (*request.headers, *proof.cookies) if noted else request.headers
        if codes:
            return replace(show_codes(self.factors, request, codes), headers=cookies)
        return SeeOther(f"{SECURITY}?done=passkey-added", cookies)

    async def show(self, request: SignedInRequest) -> Outcome:
        """Show the name and use of a passkey, with a link to remove it."""
        passkey = await self._find(request)
        return _passkey_page(request, passkey, passkey.name)

    async def rename(self, request: SignedInRequest) -> Outcome:
        """Rename a passkey."""
        name = (request.form.get("name") or "").strip()
        passkey = await self._find(request)
        if name_fault(name):
            return _passkey_page(request, passkey, name, wrong_name=True)
        renamed = await self.store.write(
            lambda tx: rename_passkey(
                tx,
                require_still_signed_in(tx, self.browsers, request),
                passkey.id,
                name,
                request.now,
            ),
            done_by=request.actor,
        )
        if not renamed:
            raise not_found("passkey")
        return SeeOther(f"{SECURITY}?done=passkey-renamed")

    async def ask_to_remove(self, request: SignedInRequest) -> Outcome:
        """Show the confirmation before a passkey is removed."""
        passkey, user = await self._find(request), request.user

        def read_state(tx: Transaction) -> tuple[bool, bool]:
            others = len(tx.credentials.passkeys_of(user.uid)) > 1
            last = not others and tx.credentials.authenticator_of(user.uid) is None
            return last, is_only_sign_in_method(tx, user)

        last, only = await self.store.read(read_state)
        action = REMOVE.replace("{id}", passkey.id)
        return Show(
            RemovePage(
                action,
                Removed.PASSKEY,
                name=passkey.name,
                last=last,
                impossible=only,
            )
        )

    async def remove(self, request: SignedInRequest) -> Outcome:
        """Remove a passkey, unless it is the user's only way to sign in."""
        passkey = await self._find(request)
        removed = await self.store.write(
            lambda tx: remove_passkey(
                tx, require_still_signed_in(tx, self.browsers, request), passkey.id, request.now
            ),
            done_by=request.actor,
        )
        if not removed:
            return SeeOther(REMOVE.replace("{id}", passkey.id))
        return SeeOther(f"{SECURITY}?done=passkey-removed")

    async def _find(self, request: SignedInRequest) -> Passkey:
        passkey_id, uid = request.request.arguments["id"], request.user.uid
        passkeys = await self.store.read(lambda tx: tx.credentials.passkeys_of(uid))
        passkey = next((passkey for passkey in passkeys if passkey.id == passkey_id), None)
        if passkey is None:
            raise not_found("passkey")
        return passkey

    async def _new(
        self,
        request: SignedInRequest,
        name: str,
        *,
        wrong_name: bool = False,
        failed: bool = False,
    ) -> Show:
        user = request.user
        present = await self.store.read(lambda tx: tx.credentials.passkeys_of(user.uid))
        bound = self.browsers.cookies.browser_fingerprint(request.browser) or ""
        context = NewPasskeyPage(
            action=target_of(request.request).address_of(NEW),
            options=self.factors.passkeys.ask_to_register(user, present, bound, request.now),
            name=name,
            wrong_name=wrong_name,
            failed=failed,
            back=back_of(request),
        )
        return Show(context, _BAD_REQUEST if wrong_name or failed else 200)


def _passkey_page(
    request: SignedInRequest, passkey: Passkey, name: str, *, wrong_name: bool = False
) -> Show:
    used = passkey.last_used_at
    context = PasskeyPage(
        action=PASSKEY.replace("{id}", passkey.id),
        shown_name=passkey.name,
        name=name,
        since=When(passkey.created_at, request.now),
        last_used=None if used is None else When(used, request.now),
        synced=passkey.synced,
        remove=REMOVE.replace("{id}", passkey.id),
        wrong_name=wrong_name,
    )
    return Show(context, _BAD_REQUEST if wrong_name else 200)
