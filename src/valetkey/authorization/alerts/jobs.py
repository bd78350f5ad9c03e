"""Look for problems once a minute, and tell administrators by email."""

import asyncio
import socket
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

import msgspec
from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import Permission
from valetkey.authorization.actions.admin.roles import holders_of
from valetkey.authorization.actions.admin.search import named_object
from valetkey.authorization.actions.inspection.check import Finding, Level, is_incomplete
from valetkey.authorization.alerts.model import (
    MOST,
    Alert,
    AlertEmail,
    AlertEnded,
    AlertRaised,
    Alerts,
)
from valetkey.authorization.alerts.settings import AlertSettings
from valetkey.authorization.background.maintenance import BATCH
from valetkey.authorization.email.notices import MailOutbox, email_to, minute_of
from valetkey.authorization.feature import Job, Parts
from valetkey.authorization.layout.addresses import ADDRESSES
from valetkey.authorization.layout.language import ENGLISH, chosen, translations
from valetkey.authorization.model.email import Email
from valetkey.authorization.model.event.event import SYSTEM, Event
from valetkey.authorization.model.user import Uid
from valetkey.authorization.storage.records import EventRecord
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.kernel.moment import Instant, days, minutes
from valetkey.kernel.replace import replace
from valetkey.kernel.runtime import Runtime

INSTALLATION = ""
HAPPENED = ":events"
"""In place of a host: problems of no single machine, and events. No host has such a name."""

SEPARATOR = "|"
"""Between the lines of a value of the email."""

Inspect = Callable[[Instant], Awaitable[Mapping[str, Sequence[Finding]]]]
"""Returns what checks find, see `Inspector.by_part`."""

_EVERY = minutes(1)
_AGAIN_AFTER = days(1)
_OVERLAP = minutes(2)
"""How far a round looks back beyond the one before: events may be committed late."""

_REMEMBERED = minutes(10)
_MOST_EVENTS = 20
_MOST_TOLD = 50
_LINES = 10


class Sentence(Struct, frozen=True):
    """A sentence to be translated, with its values; `reason` is to be translated, too."""

    text: str
    values: dict[str, str]
    reason: str = ""

    def translated(self, gettext: Callable[[str], str]) -> str:
        """Return it in a language; a value that is not known is left out."""
        reason = {"because": gettext(self.reason)} if self.reason else {}
        return gettext(self.text) % defaultdict(str, self.values | reason)


class News(Struct, frozen=True):
    """What a round tells."""

    problems: Sequence[Sentence] = ()
    ended: Sequence[str] = ()
    events: Sequence[Sentence] = ()


class AlertWatch(Struct, frozen=True):
    """Any number of processes may watch: one of them looks at the installation in each minute.

    One process of each machine looks at that machine.
    """

    store: Store
    outbox: MailOutbox
    issuer: str
    settings: AlertSettings
    inspect: Inspect
    kinds: Mapping[str, type[Event]]
    runtime: Runtime
    host: str

    async def run(self) -> None:
        """Look once a minute, for as long as the server runs."""
        while True:
            await asyncio.sleep(_EVERY)
            await self.look()

    async def look(self) -> None:
        """Look at what no other process looks at in this minute, and tell what is new."""
        now = self.runtime.now()
        mine = await self.store.write(partial(self._begin, now=now), done_by=SYSTEM)
        if not mine:
            return
        findings = await self.inspect(now)
        of_host = {
            INSTALLATION: (*findings["database"], *findings["mail"]),
            self.host: findings["machine"],
        }
        for host in mine:
            settle = (
                partial(self._events, now=now)
                if host == HAPPENED
                else partial(self._settle, host=host, findings=of_host[host], now=now)
            )
            await self.store.write(settle, done_by=SYSTEM)

    def _begin(self, tx: Transaction, now: Instant) -> Sequence[str]:
        """Return what this process looks at in this minute."""
        # A second less: the next round of the same process must not come a moment too early.
        until = Instant(now + _EVERY - 1)
        hosts = (INSTALLATION, HAPPENED, self.host)
        return [host for host in hosts if Alerts.of(tx).begin_round(host, now, until)]

    def _settle(
        self, tx: Transaction, host: str, findings: Sequence[Finding], now: Instant
    ) -> None:
        alerts = Alerts.of(tx)
        alerts.hold(host)
        open_alerts = {open_alert.id: open_alert for open_alert in alerts.open(host)}
        present = {
            f"{host}:{error.condition.name}:{error.about}": error
            for error in findings
            if error.level is Level.ERROR
        }
        problems: list[Sentence] = []
        for alert_id, finding in list(present.items())[:MOST]:
            alert = open_alerts.get(alert_id) or Alert(alert_id, host, finding.about, now)
            if alert_id not in open_alerts:
                # Told when it is found again: what a restart disturbs is resolved in a minute.
                alerts.put(alert)
            elif alert.told_at is None or alert.told_at <= now - _AGAIN_AFTER:
                if alert.told_at is None:
                    tx.events.add(AlertRaised(finding.condition.name, finding.about), now)
                alerts.put(replace(alert, told_at=now))
                problems.append(Sentence(finding.condition.text, dict(finding.values)))
        ended: list[str] = []
        if not any(map(is_incomplete, findings)):
            for alert in open_alerts.values():
                if alert.id not in present:
                    alerts.remove(alert.id)
                    if alert.told_at is not None:
                        tx.events.add(AlertEnded(alert.id.split(":")[1], alert.about), now)
                        ended.append(alert.about)
        if problems or ended:
            self._tell(tx, News(problems, ended), host, now)

    def _events(self, tx: Transaction, now: Instant) -> None:
        alerts = Alerts.of(tx)
        alerts.hold(HAPPENED)
        open_alerts = {open_alert.id: open_alert for open_alert in alerts.open(HAPPENED)}
        names = sorted(name for name, kind in self.kinds.items() if kind.is_alarming)
        sentences: list[Sentence] = []
        for event in tx.events.named(names, Instant(now - _EVERY - _OVERLAP), _MOST_EVENTS):
            if event.id not in open_alerts and len(sentences) < MOST:
                alerts.put(Alert(event.id, HAPPENED, event.name, now, now))
                sentences.append(self._sentence(tx, event))
        for alert in open_alerts.values():
            if alert.since < now - _REMEMBERED:
                alerts.remove(alert.id)
        if sentences:
            self._tell(tx, News(events=sentences), "", now)

    def _sentence(self, tx: Transaction, event: EventRecord) -> Sentence:
        kind = self.kinds[event.name]
        data = msgspec.json.decode(event.data, type=dict[str, object])
        values = {name: "" if value is None else str(value) for name, value in data.items()}
        user = None if event.uid is None else tx.users.find(Uid(event.uid))
        values["uid"] = str(event.uid or "") if user is None else user.username
        values["client_id"] = event.client_id or ""
        if event.subject:
            name_address = named_object(tx, event.subject)
            values[kind.subject_field()] = (
                name_address[0] if name_address else kind.former_name(values)
            )
        reason = kind.reasons.get(values.get("because", ""), "")
        return Sentence(kind.sentence_of(values), values, reason)

    def _tell(self, tx: Transaction, news: News, host: str, now: Instant) -> None:
        emails = [Email(AlertEmail.ALERT, address, "en") for address in self.settings.to] or [
            email_to(user, AlertEmail.ALERT, {})
            for user in holders_of(tx, Permission.SETTINGS, _MOST_TOLD)
            if user.email_verified_at is not None
        ]
        for email in emails:
            gettext = translations(chosen((email.language,)) or ENGLISH).gettext
            values = {
                "problems": _lines([sentence.translated(gettext) for sentence in news.problems]),
                "ended": _lines(news.ended),
                "events": _lines([sentence.translated(gettext) for sentence in news.events]),
                "host": host,
                "link": f"{self.issuer}{ADDRESSES['admin']}",
                "time": minute_of(now),
            }
            self.outbox.enqueue(tx, replace(email, values=values), now)


def _lines(texts: Sequence[str]) -> str:
    shown = [text.replace(SEPARATOR, "/") for text in texts[:_LINES]]
    more = len(texts) - len(shown)
    return SEPARATOR.join([*shown, *([f"+ {more}"] if more else [])])


def jobs(parts: Parts) -> tuple[Job, ...]:
    """Return what runs in the background of every worker, if alerts are on."""
    settings = parts.settings.section(AlertSettings)
    if not settings.enabled:
        return ()
    outbox = parts.notices.outbox
    watch = AlertWatch(
        parts.store,
        outbox,
        parts.notices.issuer,
        settings,
        parts.inspector.by_part,
        parts.kinds,
        parts.runtime,
        socket.gethostname(),
    )
    return (watch.run,)


def sweep(tx: Transaction, now: Instant, limit: int = BATCH) -> int:
    """Delete what machines found that have not looked for a day."""
    return Alerts.of(tx).sweep(Instant(now - days(1)), limit)
