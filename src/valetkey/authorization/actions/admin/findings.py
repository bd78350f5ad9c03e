"""Findings of the console: conditions of keys, email, owners, certificate and disk to act on."""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from valetkey.authorization.actions.admin.permissions import Actor, Permission, require
from valetkey.authorization.actions.admin.roles import Roles
from valetkey.authorization.model.account.role import Role
from valetkey.authorization.model.server.signing_key import KeyState
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.paths import certificate_files, database_file
from valetkey.config.settings import Settings
from valetkey.fetch.certificate import expiry_of
from valetkey.kernel.moment import Instant, days, minutes

_STUCK = minutes(10)
_CERTIFICATE_SOON = days(21)
_CERTIFICATE_NOW = days(7)
_DAY = 86_400
_FREE_PERCENT = 10
_LEAST_FREE_PERCENT = 3
_MOST = 1_000


class FindingName(StrEnum):
    """The kinds of findings."""

    NO_KEY = "no_key"
    NO_NEXT_KEY = "no_next_key"
    MAIL_OFF = "mail_off"
    MAIL_STUCK = "mail_stuck"
    APPS_UNTOLD = "apps_untold"
    ONE_OWNER = "one_owner"
    UNPROTECTED = "unprotected"
    SECRET_IN_URL = "secret_in_url"
    CERTIFICATE = "certificate"
    CERTIFICATE_UNREAD = "certificate_unread"
    DISK = "disk"


@dataclass(frozen=True, slots=True)
class OpenFinding:
    """A condition to act on; `is_bad` if something does not work, or soon will not.

    `count` is a number of items, days or percent, depending on the kind.
    """

    about: FindingName
    is_bad: bool = False
    count: int = 0
    name: str = ""


@dataclass(frozen=True, slots=True)
class Inspector:
    """Looks at the server from inside."""

    settings: Settings
    roles: Roles

    def inside(self, tx: Transaction, actor: Actor, now: Instant) -> Sequence[OpenFinding]:
        """Return the findings from the database. Raises Refused (forbidden)."""
        require(tx, actor, Permission.READ)
        return [*self._keys(tx, now), *self._letters(tx, now), *self._people(tx)]

    def outside(self, now: Instant) -> Sequence[OpenFinding]:
        """Return the findings about the machine; reads one or two files."""
        return [*self._certificate(now), *self._disk()]

    def _keys(self, tx: Transaction, now: Instant) -> Iterator[OpenFinding]:
        records = tx.signing_keys.all(now)
        for algorithm in self.settings.tokens.signing_algorithms:
            states = {each.state(now) for each in records if each.algorithm == algorithm}
            if KeyState.CURRENT not in states:
                yield OpenFinding(FindingName.NO_KEY, is_bad=True, name=algorithm.value)
            elif KeyState.NEXT not in states:
                yield OpenFinding(FindingName.NO_NEXT_KEY, name=algorithm.value)

    def _letters(self, tx: Transaction, now: Instant) -> Iterator[OpenFinding]:
        before = Instant(now - _STUCK)
        if not self.settings.mail.is_on:
            yield OpenFinding(FindingName.MAIL_OFF)
        elif tx.mails.is_any_due(before):
            yield OpenFinding(FindingName.MAIL_STUCK, is_bad=True)
        if tx.deliveries.is_any_due(before):
            yield OpenFinding(FindingName.APPS_UNTOLD)

    def _people(self, tx: Transaction) -> Iterator[OpenFinding]:
        holders = [each for each in self.roles.holders(tx) if each.user.disabled_at is None]
        if sum(each.user.role is Role.OWNER for each in holders) == 1:
            yield OpenFinding(FindingName.ONE_OWNER)
        if open_ := sum(not each.protected for each in holders):
            yield OpenFinding(FindingName.UNPROTECTED, is_bad=True, count=open_)
        if sighted := tx.people.count_sightings(_MOST):
            yield OpenFinding(FindingName.SECRET_IN_URL, count=sighted)

    def _certificate(self, now: Instant) -> Iterator[OpenFinding]:
        files = certificate_files(self.settings, self.settings.authorization)
        if files is None:
            return
        try:
            until = expiry_of(files[0].read_bytes())
        except OSError:
            until = None
        if until is None:
            yield OpenFinding(FindingName.CERTIFICATE_UNREAD, is_bad=True)
        elif until - now < _CERTIFICATE_SOON:
            left = max(0, (until - now) // _DAY)
            yield OpenFinding(
                FindingName.CERTIFICATE, is_bad=until - now < _CERTIFICATE_NOW, count=left
            )

    def _disk(self) -> Iterator[OpenFinding]:
        file = database_file(self.settings, self.settings.authorization)
        if file is None:
            return
        try:
            usage = shutil.disk_usage(file.parent)
        except OSError:
            return
        free = usage.free * 100 // max(1, usage.total)
        if free < _FREE_PERCENT:
            yield OpenFinding(FindingName.DISK, is_bad=free < _LEAST_FREE_PERCENT, count=free)
