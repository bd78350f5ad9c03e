"""Sign-up, by oneself or invited: an account is created once its email address is verified.

Whether an address has an account is revealed only to the reader of its emails. Whether a username
is taken is public: usernames are shown to other users (docs/decisions/0012-links-in-emails.md).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec
from msgspec import Struct

from valetkey.authorization.actions.account.passwords import NewPasswordFault, new_password_fault
from valetkey.authorization.actions.users import Accounts, UserRecord, is_choosable, is_reserved
from valetkey.authorization.authentication.password import (
    PasswordSignIn,
    hash_prepared,
    prepare,
    verify,
)
from valetkey.authorization.email.notices import (
    FORGOTTEN,
    LIFETIMES,
    SIGN_UP,
    SIGN_UP_CONFIRM,
    Links,
    MailOutbox,
    ValidLink,
    email_to,
)
from valetkey.authorization.layout.addresses import SIGN_IN
from valetkey.authorization.model.email import Email, EmailKind
from valetkey.authorization.model.event.accounts import UserInvited
from valetkey.authorization.model.event.event import USUAL_ACTOR
from valetkey.authorization.model.grant import VoucherKind
from valetkey.authorization.model.user import (
    LONGEST,
    StandardClaims,
    User,
    ascii_email,
    fold,
    is_mailable,
)
from valetkey.authorization.storage.credentials import Limit
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.sections.people import SignUpMode
from valetkey.kernel.moment import Instant, days, hours, later
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import Secret
from valetkey.web.client_address import network_of
from valetkey.web.offload import Busy

LIFETIME = LIFETIMES[VoucherKind.SIGN_UP]
"""How long the link works."""

WINDOW = hours(1)
"""Time in which the sign-ups of one network are counted."""

SENT_AGAIN = Limit(3, hours(1))
"""Maximum rate of emails sent again to one address."""

_AGAIN = "sign-up to send again"
"""The purpose to which a sealed sign-up is bound."""

_GUESSES = Limit(10, hours(1))
"""Maximum rate of password attempts at one link that is opened in another browser."""

_LONGEST_NAME = 200
_SALT = 16


class SignUpFault(StrEnum):
    """The reason why one field of the form is rejected."""

    EMPTY = "empty"
    WRONG = "wrong"  # the field's own rule rejects the value
    TAKEN = "taken"


@dataclass(frozen=True, slots=True, repr=False)
class SignUpForm:
    """The submitted form. Never printed."""

    username: str
    email: str
    name: str
    password: str

    def faults(self, reserved: Iterable[str]) -> Mapping[str, SignUpFault | NewPasswordFault]:
        """Return every error, by field."""
        errors: dict[str, SignUpFault | NewPasswordFault] = {}
        if not self.username:
            errors["username"] = SignUpFault.EMPTY
        elif not is_choosable(self.username):
            errors["username"] = SignUpFault.WRONG
        elif is_reserved(self.username, reserved):
            errors["username"] = SignUpFault.TAKEN
        if not self.email:
            errors["email"] = SignUpFault.EMPTY
        elif len(self.email) > LONGEST or not is_mailable(self.email):
            errors["email"] = SignUpFault.WRONG
        if len(self.name) > _LONGEST_NAME or not self.name.isprintable():
            errors["name"] = SignUpFault.WRONG
        names = (self.username, self.email)
        if fault := new_password_fault(self.password, self.password, names):
            errors["password"] = fault
        return errors


@dataclass(frozen=True, slots=True, repr=False)
class _Sealed:
    """A sign-up as its page keeps it, encrypted, until the link is sent again."""

    says: dict[str, str]
    until: Instant


class SignUpErrors(Struct, frozen=True):
    """The sign-up was rejected: faults by field, or the seconds to wait."""

    faults: Mapping[str, SignUpFault | NewPasswordFault]
    wait: int = 0


@dataclass(frozen=True, slots=True)
class ConfirmationSent:
    """An email was queued, whether or not the address belongs to an account.

    `again` is the sealed sign-up, for the form that sends the email again.
    """

    email: str
    again: str = field(repr=False)


class SignUpOrigin(Struct, frozen=True):
    """Origin of a sign-up: an app's request or a page of this server; browser and IP address."""

    interaction: str
    to: str
    browser: str
    address: str
    language: str


Enter = Callable[[Transaction, User], None]
"""What else is done in the transaction that creates the account."""


class Confirmation(Struct, frozen=True):
    """The content of the page that the link opens."""

    username: str
    email: str
    #: The link was opened in the browser in which the form was filled in.
    is_here: bool
    interaction: str
    to: str


@dataclass(frozen=True, slots=True, repr=False)
class _Wanted:
    """The values that the transaction of a sign-up needs."""

    record: UserRecord
    hash: str
    origin: SignUpOrigin
    invitation: str
    link: Secret
    now: Instant
    counted: str


class SignUp(Struct, frozen=True):
    """Create accounts by verified email address."""

    mode: SignUpMode
    links: Links
    outbox: MailOutbox
    accounts: Accounts
    passwords: PasswordSignIn
    brand_name: str

    async def begin(
        self,
        typed: SignUpForm,
        origin: SignUpOrigin,
        now: Instant,
        enter: Enter,
        invitation: str = "",
    ) -> User | ConfirmationSent | SignUpErrors:
        """Queue an email; or create the account at once, with an invitation or where email is off.

        `enter` runs in the transaction that makes the account. Raises Busy.
        """
        if faults := typed.faults((self.brand_name,)):
            return SignUpErrors(faults)
        prepared = prepare(typed.password)
        if prepared is None:
            return SignUpErrors({"password": NewPasswordFault.IMPOSSIBLE})
        store, bucket = self.passwords.store, self._place(origin.address)
        if self.passwords.offload.is_full:
            raise Busy("too many sign-ins wait")
        if wait := await self._count(bucket, now):
            return SignUpErrors({}, wait)
        # Hashed in every case: the time it takes must not tell whether the email is taken.
        salt = self.links.random(_SALT)
        try:
            data = await self.passwords.offload.run(
                hash_prepared, prepared, self.passwords.passwords, salt
            )
        except Busy:
            # Nothing was done, so nothing counts.
            await store.write(lambda tx: tx.throttles.cancel(bucket), done_by=USUAL_ACTOR)
            raise
        record = _record(typed.username, typed.email, typed.name, origin.language)
        wish = _Wanted(record, data, origin, invitation, self.links.fresh(), now, bucket)
        return await store.write(lambda tx: self._settle(tx, wish, enter), done_by=USUAL_ACTOR)

    async def send_again(
        self, again: str, browser: str, address: str, now: Instant
    ) -> ConfirmationSent | SignUpErrors | None:
        """Queue the email of a sign-up again, with another link; None if it is too old.

        `again` counts only in the browser of the sign-up. The limits are those of `begin`, and
        three more for each email address.
        """
        plain = self.links.keyring.sealer.open(again, _AGAIN)
        if plain is None:
            return None
        sealed = msgspec.json.decode(plain, type=_Sealed)
        says = sealed.says
        if sealed.until <= now or not browser or says["browser"] != browser:
            return None
        key, link, bucket = self.passwords.key, self.links.fresh(), self._place(address)
        box = f"sign_up_again:{key.fingerprint('throttle', fold(says['email']))}"
        if wait := await self._count(bucket, now):
            return SignUpErrors({}, wait)

        def send_again(tx: Transaction) -> ConfirmationSent | SignUpErrors:
            if wait := tx.throttles.take(box, SENT_AGAIN, now):
                tx.throttles.cancel(bucket)
                return SignUpErrors({}, wait)
            owner = tx.users.find_by_name(says["email"])
            return self._send(tx, {**says, "counted": bucket}, link, owner, now)

        return await self.passwords.store.write(send_again, done_by=USUAL_ACTOR)

    def _place(self, address: str) -> str:
        return f"sign_up_from:{self.passwords.key.fingerprint('throttle', network_of(address))}"

    async def _count(self, bucket: str, now: Instant) -> int:
        """Count a sign-up in this bucket; return the seconds to wait if there were too many."""
        # In a transaction of its own: confirming locks the link first and the counter last.
        limit = Limit(self.passwords.limits.unopened_links_per_address, WINDOW)
        return await self.passwords.store.write(
            lambda tx: tx.throttles.begin(bucket, limit, now), done_by=USUAL_ACTOR
        )

    def _settle(
        self, tx: Transaction, wish: _Wanted, enter: Enter
    ) -> User | ConfirmationSent | SignUpErrors:
        done = self._send_or_create(tx, wish, enter)
        if isinstance(done, SignUpErrors) and "username" in done.faults:
            # Usernames are public, and this is the most usual error. Those about an email count.
            tx.throttles.give_back(wish.counted)
        elif isinstance(done, User) and wish.invitation:
            # A class of new users behind one address, each with an invitation.
            tx.throttles.cancel(wish.counted)
        return done

    def _send_or_create(
        self, tx: Transaction, wish: _Wanted, enter: Enter
    ) -> User | ConfirmationSent | SignUpErrors:
        record, now = wish.record, wish.now
        invited = None
        if wish.invitation:
            invited = self.links.find(tx, VoucherKind.INVITATION, wish.invitation, now)
            if invited is None or fold(invited.data["email"]) != fold(record.email):
                return SignUpErrors({"email": SignUpFault.WRONG})
        is_taken = tx.users.find_by_name(record.username) is not None
        if is_taken or tx.users.is_number_taken(record.username):
            return SignUpErrors({"username": SignUpFault.TAKEN})
        owner = tx.users.find_by_name(record.email)
        if invited is None and self.outbox.is_on:
            return self._write(tx, wish, owner)
        if owner is not None:
            return SignUpErrors({"email": SignUpFault.TAKEN})
        if invited is not None and not self.links.redeem(tx, invited, now):
            return SignUpErrors({"email": SignUpFault.WRONG})
        proven = replace(record, email_verified=invited is not None)
        user = self.accounts.register(tx, proven, now, password_hash=wish.hash)
        if not isinstance(user, User):
            return SignUpErrors({"username": SignUpFault.TAKEN})
        enter(tx, user)
        return user

    def _write(self, tx: Transaction, wish: _Wanted, owner: User | None) -> ConfirmationSent:
        record, origin = wish.record, wish.origin
        says = {
            "username": record.username,
            "email": record.email,
            "name": record.name,
            "locale": origin.language,
            "hash": wish.hash,
            "browser": origin.browser,
            "interaction": origin.interaction,
            "to": origin.to,
            "counted": wish.counted,
        }
        return self._send(tx, says, wish.link, owner, wish.now)

    def _send(
        self,
        tx: Transaction,
        says: Mapping[str, str],
        link: Secret,
        owner: User | None,
        now: Instant,
    ) -> ConfirmationSent:
        until = later(now, LIFETIME)
        if owner is None:
            values = {"link": self.links.address(SIGN_UP_CONFIRM, link)}
            kind = EmailKind.SIGN_UP
            message = Email(kind, says["email"], says["locale"], values, good_until=until)
        else:
            message = already_there(owner, self.links)
        is_sent = self.outbox.enqueue(tx, message, now)
        # By browser, too: otherwise a stranger could end the sign-up of another person.
        subject = f"{says['browser']} {fold(says['username'])}"
        # Stored for a taken address, too, but not sent: both cases take the same time.
        self.links.issue(tx, VoucherKind.SIGN_UP, link, says, until, subject if is_sent else None)
        plain = msgspec.json.encode(_Sealed(dict(says), until))
        again = self.links.keyring.sealer.seal(plain, _AGAIN, self.links.random)
        return ConfirmationSent(says["email"], again)

    async def find_link(self, text: str, browser: str, now: Instant) -> Confirmation | None:
        """Return the content of the link's page; None if the link is invalid."""
        link = await self.passwords.store.read(lambda tx: self._find(tx, text, now))
        if link is None:
            return None
        says = link.data
        is_here = bool(browser) and says["browser"] == browser
        return Confirmation(
            says["username"], says["email"], is_here, says["interaction"], says["to"]
        )

    async def confirm(
        self, text: str, browser: str, password: str, now: Instant, enter: Enter
    ) -> User | SignUpFault | int | None:
        """Create the account, and sign in.

        In a browser other than the form's, the password is required: the reader of the email need
        not be the person who filled in the form. Returns WRONG for a wrong password, TAKEN if the
        username or address has been taken since, seconds to wait after too many attempts, None for
        an invalid link.
        """
        store = self.passwords.store
        link = await store.read(lambda tx: self._find(tx, text, now))
        if link is None:
            return None
        says = link.data
        if not browser or says["browser"] != browser:
            bucket = f"sign_up_link:{link.voucher.fingerprint}"
            if wait := await store.write(
                lambda tx: tx.throttles.take(bucket, _GUESSES, now), done_by=USUAL_ACTOR
            ):
                return wait
            if not await self.passwords.offload.run(
                verify, password, says["hash"], self.passwords.passwords
            ):
                return SignUpFault.WRONG
        record = _record(says["username"], says["email"], says["name"], says["locale"])

        def create_account(tx: Transaction) -> User | SignUpFault | None:
            if not self.links.redeem(tx, link, now):
                return None
            user = self.accounts.register(tx, record, now, password_hash=says["hash"])
            if isinstance(user, User):
                enter(tx, user)
            if counted := says.get("counted"):
                begun_at = Instant(link.voucher.expires_at - LIFETIME)
                tx.throttles.finish(counted, begun_at, WINDOW, now)
            return user if isinstance(user, User) else SignUpFault.TAKEN

        return await store.write(create_account, done_by=USUAL_ACTOR)

    def _find(self, tx: Transaction, text: str, now: Instant) -> ValidLink | None:
        return self.links.find(tx, VoucherKind.SIGN_UP, text, now)


def already_there(owner: User, links: Links) -> Email:
    """Return the email to an address that has an account already and was used for a new sign-up."""
    values = {
        "sign_in": f"{links.issuer}{SIGN_IN}",
        "forgotten": f"{links.issuer}{FORGOTTEN}",
    }
    return email_to(owner, EmailKind.SIGN_UP_TAKEN, values)


def _record(username: str, email: str, name: str, language: str) -> UserRecord:
    claims = replace(StandardClaims.NOTHING, locale=language)
    return UserRecord(username, email, name, claims=claims)


INVITATION_LIFETIME = LIFETIMES[VoucherKind.INVITATION]
"""How long an invitation can be used."""


class PeopleInvitations(Struct, frozen=True):
    """Creates and finds invitations. Its methods run inside a transaction."""

    links: Links
    outbox: MailOutbox

    def invite(self, tx: Transaction, email: str, link: Secret, language: str, now: Instant) -> str:
        """Invite an email address.

        Return the address of the invitation page; an email is sent if mail is on.

        `link` is from `links.fresh`. Returns "" if the address has an account already. The address
        must satisfy `is_mailable`.
        """
        email = ascii_email(email)
        if tx.users.find_by_name(email) is not None:
            return ""
        until = later(now, INVITATION_LIFETIME)
        says = {"email": email}
        self.links.issue(tx, VoucherKind.INVITATION, link, says, until, subject=fold(email))
        url = self.links.address(SIGN_UP, link)
        values = {"link": url, "days": str(INVITATION_LIFETIME // days(1))}
        message = Email(EmailKind.INVITATION, email, language, values, good_until=until)
        self.outbox.enqueue(tx, message, now)
        tx.events.add(UserInvited(), now)
        return url

    def find(self, tx: Transaction, text: str, now: Instant) -> str:
        """Return the email address that was invited; "" if the link is invalid."""
        link = self.links.find(tx, VoucherKind.INVITATION, text, now)
        return "" if link is None else link.data["email"]
