"""Health, requests and users of an app, as its team sees them."""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from valetkey.authorization.actions.account.connected_apps import scope_of_grants
from valetkey.authorization.actions.clients import Faults, Registrar, metadata_of
from valetkey.authorization.actions.usage import (
    LAG,
    PKCE_MISSING,
    PKCE_USED,
    Day,
    grant_used,
    scope_used,
    usage_of,
)
from valetkey.authorization.model.client import (
    CLIENT_SCOPE,
    DISCOURAGED,
    ApplicationType,
    Client,
    GrantTypeName,
    ProfileName,
)
from valetkey.authorization.model.grant import Consent
from valetkey.authorization.model.user import Uid
from valetkey.authorization.protocol.claims import (
    OFFLINE_ACCESS,
    OPENID,
    claims_of_scope,
    user_claims,
)
from valetkey.authorization.storage.grants import ClientUsers
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.storage.usage import StoredSample
from valetkey.authorization.tokens.id_token import Subjects
from valetkey.database.decisions import DECISION_LIFETIME, Decision
from valetkey.kernel.moment import Instant, Lifetime, days, hours
from valetkey.kernel.replace import replace
from valetkey.kernel.scope import Scope

UNUSED_AFTER = days(90)
"""Scopes, redirect URIs and grant types without use for this long are reported."""

OLD_SECRET = days(365)
"""Secrets older than this are reported: they are in too many files and backups."""

IDLE_SECRET = days(30)
"""Secrets without use for this long since their creation are reported."""

_RECENT = days(30)
_SAMPLES = 25
_BEHIND = hours(1)


class Severity(StrEnum):
    """The severity of a finding."""

    ALARM = "alarm"
    WARNING = "warning"
    HINT = "hint"


class FindingKind(StrEnum):
    """The kinds of findings."""

    SECRET_IN_URL = "secret_in_url"
    IMPLICIT_UNUSED = "implicit_unused"
    IMPLICIT_USED = "implicit_used"
    PASSWORD_UNUSED = "password_unused"
    PASSWORD_USED = "password_used"
    PKCE_UNUSED = "pkce_unused"
    PKCE_OPTIONAL = "pkce_optional"
    HTTP_REDIRECT = "http_redirect"
    SCOPES_UNUSED = "scopes_unused"
    SECRET_OLD = "secret_old"
    SECRET_IDLE = "secret_idle"
    CLASSIC_NEEDLESS = "classic_needless"
    NO_POLICY = "no_policy"
    NO_LOGO = "no_logo"
    LOGO_UNUSABLE = "logo_unusable"


class Fix(StrEnum):
    """The action of a finding's button."""

    DROP_IMPLICIT = "drop-implicit"
    DROP_PASSWORD = "drop-password"
    REQUIRE_PKCE = "require-pkce"
    REMOVE_SCOPES = "remove-scopes"
    MODERN_PROFILE = "modern-profile"
    FETCH_LOGO = "fetch-logo"


class Finding(Struct, frozen=True):
    """One finding. `about` lists the scopes, addresses or secrets concerned.

    `last` is when it last happened, None for never. `fix` is the action that resolves it; None if a
    decision is needed, which is made on the portal page `page`.
    """

    sign: FindingKind
    weight: Severity
    about: tuple[str, ...] = ()
    last: Instant | None = None
    fix: Fix | None = None
    page: str = "settings"


class _Facts(Struct, frozen=True):
    """Data of a client; `watched` says whether its use was recorded long enough to judge."""

    client: Client
    latest: Mapping[str, Instant]
    now: Instant
    watched: bool

    def since(self, lapse: Lifetime) -> Instant:
        return Instant(self.now - lapse)

    def last(self, what: str) -> Instant | None:
        return self.latest.get(what)

    def is_unused(self, what: str) -> bool:
        last = self.last(what)
        return self.watched and (last is None or last < self.since(UNUSED_AFTER))


def findings_of(tx: Transaction, client: Client, now: Instant) -> Sequence[Finding]:
    """Return the findings of an app, the most severe first.

    "Unused" is reported only if the app is older than the period, and if no event waits to be
    counted.
    """
    waiting = tx.events.page(*tx.usage.cursor(), limit=1)
    behind = bool(waiting) and waiting[0].at < now - LAG - _BEHIND
    watched = not behind and client.created_at <= now - UNUSED_AFTER
    facts = _Facts(client, tx.usage.latest(client.id), now, watched)
    findings = (
        *_secrets(tx, facts),
        *_legacy(facts),
        *_pkce(facts),
        *_addresses(facts),
        *_scopes(facts),
        *_profile(tx, facts),
        *_appearance(tx, facts),
    )
    weights = list(Severity)
    return sorted(findings, key=lambda finding: weights.index(finding.weight))


#: No user signs in for an access token of these.
_WITHOUT_USER = frozenset((GrantTypeName.CLIENT_CREDENTIALS, GrantTypeName.REFRESH_TOKEN))


class AppActivity(Struct, frozen=True):
    """The latest of an app: days with any count, what went well, what failed, what to fix."""

    days: Sequence[Day]
    #: The last sign-in of a user; the last access token of an app without users.
    success: Instant | None
    #: The last refusal, of the last seven days.
    failure: Decision | None
    findings: Sequence[Finding]


def activity_of(tx: Transaction, client: Client, since: Instant, now: Instant) -> AppActivity:
    """Return what is known about the use of an app; `days` are those since `since`."""
    signs_in = bool(client.grant_types - _WITHOUT_USER)
    ignored = _WITHOUT_USER if signs_in else frozenset[str]()
    counted = {
        what: at
        for what, at in tx.usage.latest(client.id).items()
        if what.startswith(grant_used("")) and what.removeprefix(grant_used("")) not in ignored
    }
    # Tokens are counted after two minutes; samples are there before.
    recent = requests_of(tx, client.id, NEWEST, _SAMPLES, AppRequests(refused=False))
    sampled = (
        sample.at
        for sample in recent
        if isinstance(sample, StoredSample)
        and sample.grant_type
        and sample.grant_type not in ignored
    )
    failed = requests_of(tx, client.id, NEWEST, 1, AppRequests(successful=False))
    return AppActivity(
        usage_of(tx, client.id, since),
        max((*counted.values(), *sampled), default=None),
        next((decision for decision in failed if isinstance(decision, Decision)), None),
        findings_of(tx, client, now),
    )


def apply_fix(
    tx: Transaction, registrar: Registrar, client: Client, fix: Fix, now: Instant
) -> Client | Faults | None:
    """Apply the fix. Return the client, the errors, or None if there is nothing to fix.

    The finding is evaluated again in the transaction, so that nothing used a moment ago is removed.
    """
    finding = next(
        (candidate for candidate in findings_of(tx, client, now) if candidate.fix is fix), None
    )
    if finding is None:
        return None
    before = metadata_of(client)
    match fix:
        case Fix.DROP_IMPLICIT | Fix.DROP_PASSWORD:
            gone = _LEGACY[fix]
            left = tuple(name for name in before.grant_types if name != gone)
            return registrar.change(tx, client, replace(before, grant_types=left), now)
        case Fix.REQUIRE_PKCE:
            return registrar.change(tx, client, replace(before, requires_pkce=True), now)
        case Fix.MODERN_PROFILE:
            modern = ProfileName.MODERN.value
            return registrar.change(tx, client, replace(before, profile=modern), now)
        case Fix.FETCH_LOGO:
            tx.logos.retry(client.id, now)
            return client
        case Fix.REMOVE_SCOPES:

            def without(names: tuple[str, ...]) -> tuple[str, ...]:
                return tuple(name for name in names if name not in finding.about)

            after = replace(
                before,
                scopes=without(before.scopes),
                default_scopes=without(before.default_scopes),
            )
            return registrar.change(tx, client, after, now)


_LEGACY: Mapping[Fix, str] = {
    Fix.DROP_IMPLICIT: GrantTypeName.IMPLICIT.value,
    Fix.DROP_PASSWORD: GrantTypeName.PASSWORD.value,
}


def _secrets(tx: Transaction, facts: _Facts) -> Sequence[Finding]:
    findings: list[Finding] = []
    live = [
        secret
        for secret in tx.usage.secrets_of(facts.client.id)
        if secret.expires_at is None or secret.expires_at > facts.now
    ]
    sighting = tx.clients.query_credential_use(facts.client.id)
    if sighting is not None:
        seen = tuple(secret.name for secret in live if secret.created_at <= sighting.last_seen_at)
        if seen:
            last = sighting.last_seen_at
            findings.append(
                Finding(FindingKind.SECRET_IN_URL, Severity.ALARM, seen, last, None, "secrets")
            )
    lasting = [secret for secret in live if secret.expires_at is None]
    for secret in lasting:
        if secret.last_used_at is None and secret.created_at < facts.since(IDLE_SECRET):
            findings.append(
                Finding(FindingKind.SECRET_IDLE, Severity.WARNING, (secret.name,), page="secrets")
            )
        elif secret.created_at < facts.since(OLD_SECRET):
            last = secret.created_at
            findings.append(
                Finding(FindingKind.SECRET_OLD, Severity.HINT, (secret.name,), last, page="secrets")
            )
    return findings


def _legacy(facts: _Facts) -> Sequence[Finding]:
    findings: list[Finding] = []
    for grant_type, unused, used, fix in (
        (
            GrantTypeName.IMPLICIT,
            FindingKind.IMPLICIT_UNUSED,
            FindingKind.IMPLICIT_USED,
            Fix.DROP_IMPLICIT,
        ),
        (
            GrantTypeName.PASSWORD,
            FindingKind.PASSWORD_UNUSED,
            FindingKind.PASSWORD_USED,
            Fix.DROP_PASSWORD,
        ),
    ):
        if not facts.client.may_use(grant_type):
            continue
        last = facts.last(grant_used(grant_type.value))
        if facts.is_unused(grant_used(grant_type.value)):
            findings.append(Finding(unused, Severity.WARNING, last=last, fix=fix))
        else:
            findings.append(Finding(used, Severity.WARNING, last=last, page="quickstart"))
    return findings


def _pkce(facts: _Facts) -> Sequence[Finding]:
    client = facts.client
    if client.needs_pkce or not client.may_use(GrantTypeName.AUTHORIZATION_CODE):
        return ()
    missing, used = facts.last(PKCE_MISSING), facts.last(PKCE_USED)
    if missing is not None and missing >= facts.since(_RECENT):
        return (
            Finding(FindingKind.PKCE_UNUSED, Severity.WARNING, last=missing, page="quickstart"),
        )
    if used is None or used < facts.since(_RECENT):
        return (Finding(FindingKind.PKCE_UNUSED, Severity.HINT, last=missing, page="quickstart"),)
    return (Finding(FindingKind.PKCE_OPTIONAL, Severity.WARNING, last=used, fix=Fix.REQUIRE_PKCE),)


def _addresses(facts: _Facts) -> Sequence[Finding]:
    if facts.client.application_type is not ApplicationType.WEB:
        return ()
    plain = tuple(uri for uri in facts.client.redirect_uris if uri.startswith("http://"))
    return (Finding(FindingKind.HTTP_REDIRECT, Severity.WARNING, plain),) if plain else ()


def _scopes(facts: _Facts) -> Sequence[Finding]:
    client = facts.client
    used = any(
        at >= facts.since(UNUSED_AFTER)
        for what, at in facts.latest.items()
        if what.startswith(grant_used(""))
    )
    # For an app without any use, unused scopes are not reported.
    if not used:
        return ()
    kept = {*client.required_scope, *CLIENT_SCOPE, OPENID, OFFLINE_ACCESS}
    idle = tuple(
        name for name in client.scope if name not in kept and facts.is_unused(scope_used(name))
    )
    if not idle:
        return ()
    return (Finding(FindingKind.SCOPES_UNUSED, Severity.WARNING, idle, fix=Fix.REMOVE_SCOPES),)


def _profile(tx: Transaction, facts: _Facts) -> Sequence[Finding]:
    client = facts.client
    if client.profile_name is not ProfileName.CLASSIC or not facts.watched:
        return ()
    if any(client.may_use(name) for name in DISCOURAGED):
        return ()
    sighting = tx.clients.query_credential_use(client.id)
    if sighting is not None and sighting.last_seen_at >= facts.since(UNUSED_AFTER):
        return ()
    missing = facts.last(PKCE_MISSING)
    if missing is not None and missing >= facts.since(UNUSED_AFTER):
        return ()
    return (Finding(FindingKind.CLASSIC_NEEDLESS, Severity.HINT, fix=Fix.MODERN_PROFILE),)


def _appearance(tx: Transaction, facts: _Facts) -> Sequence[Finding]:
    client = facts.client
    if not client.may_use(GrantTypeName.AUTHORIZATION_CODE):
        return ()
    findings: list[Finding] = []
    if not client.policy_uri:
        findings.append(Finding(FindingKind.NO_POLICY, Severity.HINT))
    if not client.logo_uri:
        findings.append(Finding(FindingKind.NO_LOGO, Severity.HINT))
    elif tx.logos.failure(client.id):
        about = (client.logo_uri,)
        findings.append(
            Finding(FindingKind.LOGO_UNUSABLE, Severity.WARNING, about, fix=Fix.FETCH_LOGO)
        )
    return findings


class Cursor(Struct, frozen=True):
    """The position in the list of requests after which a page begins, newest first."""

    at: Instant
    reference: str

    @staticmethod
    def from_record(record: Decision | StoredSample) -> "Cursor":
        """Return the position of a request."""
        reference = record.reference if isinstance(record, Decision) else record.id
        return Cursor(record.at, reference)


NEWEST = Cursor(Instant(1 << 53), "")
"""The position before the newest request."""


class AppRequests(Struct, frozen=True):
    """The requests to list; with a `code`, only refused ones with that error."""

    refused: bool = True
    successful: bool = True
    code: str = ""


def requests_of(
    tx: Transaction, client_id: str, after: Cursor, limit: int, criteria: AppRequests
) -> Sequence[Decision | StoredSample]:
    """Return at most `limit` requests of one app, newest first."""
    arguments = client_id, after.at, after.reference, limit
    refused = tx.decisions.of_client(*arguments, criteria.code) if criteria.refused else ()
    sampled = tx.request_samples.of_client(*arguments) if criteria.successful else ()
    both: list[Decision | StoredSample] = [*refused, *sampled]
    return sorted(both, key=_place, reverse=True)[:limit]


def _place(record: Decision | StoredSample) -> tuple[Instant, str]:
    cursor = Cursor.from_record(record)
    return cursor.at, cursor.reference


_QUOTED = re.compile(r"'([!-&(-\[\]-~]+)'")
_UNPROVEN = "client."


def codes_of(tx: Transaction, client_id: str, now: Instant) -> Sequence[str]:
    """Return the errors among the app's refusals of the last seven days, in alphabetical order."""
    since = Instant(now - DECISION_LIFETIME)
    return sorted({code for day in usage_of(tx, client_id, since) for code in day.errors})


def find_failure(tx: Transaction, client_id: str, reference: str) -> Decision | None:
    """Return a refusal of this app; None if there is none or it belongs to another app."""
    decision = tx.decisions.find(reference)
    return decision if decision is not None and decision.client_id == client_id else None


def app_of_failure(tx: Transaction, reference: str, uid: Uid) -> str | None:
    """Return the id of the app that a refusal is about, for its team; None for other users."""
    decision = tx.decisions.find(reference)
    if decision is None or decision.client_id is None:
        return None
    return decision.client_id if tx.members.find(decision.client_id, uid) is not None else None


def may_be_another(decision: Decision) -> bool:
    """Return whether someone other than the app could have sent that request."""
    return decision.check.startswith(_UNPROVEN) or decision.endpoint == "/oauth/authorize"


def missing_redirect_uri(decision: Decision) -> str:
    """Return the redirect URI that was sent but is not registered; "" for every other refusal."""
    if decision.check != "redirect_uri.unknown":
        return ""
    match = _QUOTED.fullmatch(decision.received)
    return match[1] if match else ""


def add_redirect_uri(
    tx: Transaction, registrar: Registrar, client: Client, redirect_uri: str, now: Instant
) -> Client | Faults:
    """Register one more redirect URI. Return the client, or every error."""
    if redirect_uri in client.redirect_uris:
        return client
    before = metadata_of(client)
    after = replace(before, redirect_uris=(*before.redirect_uris, redirect_uri))
    return registrar.change(tx, client, after, now)


class ConnectedUser(Struct, frozen=True):
    """A user of the app. `subject` is the `sub` by which the app knows them.

    `name` and `email` are "" unless the user allowed the app to read them: developers see nothing
    here that their app could not request.
    """

    uid: int
    subject: str
    scope: Scope
    since: Instant
    last_used_at: Instant | None
    name: str = ""
    email: str = ""


class ConnectedUsers(Struct, frozen=True):
    """A page of users, and their total number."""

    total: int
    people: Sequence[ConnectedUser]


def users_of_app(
    tx: Transaction,
    client: Client,
    subjects: Subjects,
    before: tuple[Instant, int],
    limit: int,
    now: Instant,
) -> ConnectedUsers:
    """Return at most `limit` users, latest first, after the given position of time and uid."""
    connections = ClientUsers(tx.db)
    rows: list[tuple[Instant, Uid, Consent | None]] = [
        (consent.given_at, consent.uid, consent)
        for consent in connections.page(client.id, *before, limit)
    ]
    others = connections.without_consent(client.id, *before, now, limit)
    rows += [(since, uid, None) for uid, since in others]
    rows.sort(key=lambda connection: connection[:2], reverse=True)
    people = [_person(tx, client, subjects, row, now) for row in rows[:limit]]
    return ConnectedUsers(
        tx.grants.usage_of(client.id, now).people,
        [person for person in people if person is not None],
    )


def _person(
    tx: Transaction,
    client: Client,
    subjects: Subjects,
    row: tuple[Instant, Uid, Consent | None],
    now: Instant,
) -> ConnectedUser | None:
    since, uid, consent = row
    user = tx.users.find(uid)
    if user is None:
        return None
    access = tx.connected.of_app(uid, client.id, now)
    if consent is None:
        scope, claims = scope_of_grants(tx, uid, client.id, now), frozenset[str]()
    else:
        scope, claims = consent.scope, consent.claims
    values = user_claims(user, frozenset((*claims_of_scope(scope), *claims)))
    return ConnectedUser(
        uid=user.uid,
        subject=subjects.subject_of(user, client),
        scope=scope,
        since=since,
        last_used_at=None if access is None else access.last_used_at,
        name=str(values.get("name", "")),
        email=str(values.get("email", "")),
    )
