"""The portal's deeds where many come at one moment: limits hold, answers count once."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from valetkey.authorization.actions.clients import Registrar
from valetkey.authorization.actions.presets import AppKind, RegistrationDenial, new_app
from valetkey.authorization.actions.teams import FreshInvitation, Teams, give_owner
from valetkey.authorization.app.foundation import build_foundation
from valetkey.authorization.email.notices import MailOutbox
from valetkey.authorization.features import GRANT_RULES
from valetkey.authorization.model.client import Client, ProfileName, TeamRole
from valetkey.authorization.model.user import StandardClaims, Uid, User
from valetkey.authorization.portal.rules.apps import (
    AppSecrets,
    NoNewSecret,
    Overlap,
    Portal,
    state_of,
)
from valetkey.authorization.portal.settings import PortalSettings, Registrants
from valetkey.authorization.protocol.register.client_rules import ClientRules
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.sections.people import MailSettings
from valetkey.config.settings import AuthorizationSettings, Settings
from valetkey.kernel.keyring import Keyring
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.replace import replace
from valetkey.kernel.runtime import SYSTEM
from valetkey.kernel.secret import Prefix, Secret, fresh_secret
from valetkey.testing.storage_conformance import NOW, THREADS, Memory

_ADELE = User(
    Uid(7), "adele", "adele@example.com", NOW, "Adele", NOW, NOW, None, StandardClaims.NOTHING
)
_BORIS = User(
    Uid(8), "boris", "boris@example.com", NOW, "Boris", NOW, NOW, None, StandardClaims.NOTHING
)
_KEYRING = Keyring.fresh(SYSTEM.random)
_PORTAL = Portal(
    Registrar(
        ClientRules((), ("notes:read",), GRANT_RULES, ProfileName.MODERN),
        _KEYRING.fingerprint_key,
        _KEYRING.sealer,
        SYSTEM.random,
        "portal",
    ),
    PortalSettings(Registrants.EVERYONE, apps_per_person=3),
    ("notes:read",),
    (),
)
_APP = replace(
    new_app(AppKind.SERVER, "modern", GRANT_RULES),
    name="Printer",
    redirect_uris=("https://app.example/cb",),
)


def _secret() -> Secret:
    return fresh_secret(Prefix.CLIENT_SECRET, SYSTEM.random)


@pytest.fixture
def memory(database_url: str, tmp_path: Path) -> Iterator[Memory]:
    memory = Memory(database_url, tmp_path)
    for user in (_ADELE, _BORIS):
        assert memory.write(lambda tx, user=user: tx.users.register(user))  # type: ignore[misc]
    yield memory
    memory.close()


def _registered(memory: Memory) -> Client:
    made = memory.write(
        lambda tx: _PORTAL.register(tx, _ADELE, _APP, NOW, client_id="app_1", secret=_secret())
    )
    assert isinstance(made, Client)
    return made


def test_app_limit_holds_under_parallel_requests(memory: Memory) -> None:
    secrets = [_secret() for _ in range(THREADS)]
    outcomes = memory.contend(
        lambda tx, number: _PORTAL.register(
            tx, _ADELE, _APP, NOW, client_id=f"app_{number}", secret=secrets[number]
        )
    )
    assert sum(isinstance(outcome, Client) for outcome in outcomes) == 3
    assert outcomes.count(RegistrationDenial.FULL) == THREADS - 3
    assert len(memory.read(lambda tx: tx.members.of_user(_ADELE.uid))) == 3


def test_parallel_issues_of_a_secret_succeed_once(memory: Memory) -> None:
    client = _registered(memory)
    keeper, secrets = AppSecrets(_PORTAL.registrar), [_secret() for _ in range(THREADS)]
    seen = state_of(memory.read(lambda tx: tx.secrets.usable(client.id, NOW)))
    outcomes = memory.contend(
        lambda tx, number: keeper.issue(
            tx, client.id, _ADELE.uid, secrets[number], NOW, seen=seen, overlap=Overlap.DAY
        )
    )
    assert outcomes.count(None) == 1
    assert outcomes.count(NoNewSecret.OTHERS) == THREADS - 1
    assert len(memory.read(lambda tx: tx.secrets.usable(client.id, NOW))) == 2
    (secret, _) = memory.read(lambda tx: tx.secrets.usable(client.id, NOW))
    ended = memory.contend(lambda tx, _: keeper.end(tx, client.id, _ADELE.uid, secret.id, NOW))
    assert ended.count(True) == 1
    assert not memory.write(lambda tx: keeper.end(tx, client.id, _BORIS.uid, secret.id, NOW))


def test_invitation_is_accepted_once_and_last_owner_cannot_be_removed(memory: Memory) -> None:
    client = _registered(memory)
    outbox = MailOutbox(MailSettings(), _KEYRING, SYSTEM.random)
    teams = Teams(_KEYRING.fingerprint_key, outbox, "https://auth.example")
    fresh = FreshInvitation("ti_1", fresh_secret(Prefix.LINK, SYSTEM.random))

    def ask(tx: Transaction) -> object:
        return teams.invite(tx, client.id, _ADELE, "boris", TeamRole.OWNER, fresh, NOW)

    assert memory.write(ask) is None
    outcomes = memory.contend(lambda tx, _: teams.accept(tx, "ti_1", _BORIS, "", NOW))
    assert sum(outcome is not None for outcome in outcomes) == 1
    both = (_ADELE.uid, _BORIS.uid)
    memory.contend(
        lambda tx, number: teams.remove(tx, client.id, both[number % 2], both[number % 2], NOW)
    )
    team = memory.read(lambda tx: tx.members.team(client.id))
    assert [one.owns for one in team] == [True]


def test_ownerless_app_gets_an_owner(memory: Memory) -> None:
    client = _registered(memory)
    memory.write(lambda tx: tx.members.remove(client.id, _ADELE.uid))
    outcomes = memory.contend(lambda tx, _: give_owner(tx, client.id, _BORIS.uid, NOW))
    assert outcomes.count(True) == 1
    assert not memory.write(lambda tx: give_owner(tx, client.id, Uid(99), NOW))
    assert not memory.write(lambda tx: give_owner(tx, "app_2", _BORIS.uid, NOW))


def test_unrequestable_scope_is_a_settings_error(tmp_path: Path) -> None:
    settings = Settings(
        authorization=AuthorizationSettings(database=f"sqlite:///{tmp_path}/a.db"),
        features=(PortalSettings(scopes=("nonsense",)),),
    )
    foundation = build_foundation(settings, SYSTEM, {"notes:read": "read your notes"})
    with pytest.raises(OperatorError, match="nonsense"):
        foundation.check(settings)
