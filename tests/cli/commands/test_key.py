"""`valetkey key`: shown without secrets, rotated without an outage, backed up and brought back."""

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.running import Ran, valetkey
from tests.cli.site import configure, serving
from valetkey.authorization.app.foundation import Foundation, build_foundation
from valetkey.authorization.model.client import Client
from valetkey.authorization.model.event.event import USUAL_ACTOR
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.load import load
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.runtime import SYSTEM
from valetkey.kernel.secret import Secret


def key(here: Path, *arguments: str) -> Ran:
    return valetkey("key", *arguments, here=here)


def listed(here: Path, algorithm: str = "ES256") -> list[dict[str, str]]:
    signing_keys = key(here, "list", "--json").json["signing_keys"]
    return [entry for entry in signing_keys if entry["algorithm"] == algorithm]


def states(here: Path, algorithm: str = "ES256") -> list[str]:
    return [entry["state"] for entry in listed(here, algorithm)]


@pytest.fixture
def here(tmp_path: Path) -> Path:
    configure(tmp_path)
    return tmp_path


def test_keys_are_made_at_the_first_start_and_rotated_by_command(here: Path) -> None:
    assert valetkey("database", "migrate", here=here).code == 0
    assert states(here) == []
    with serving(here):
        assert states(here) == ["current", "next"]
        first = listed(here)[0]["kid"]
        assert key(here, "rotate").code == 2
        assert key(here, "rotate", "--now", "--yes").code == 0
        assert states(here)[-2:] == ["current", "next"]
        assert [e["kid"] for e in listed(here) if e["state"] == "current"] != [first]
    shown = key(here, "list")
    keyring = (here / "valetkey/valetkey.keyring").read_text(encoding="ascii")
    for line in keyring.splitlines():
        if not line.startswith("#"):
            assert line.split()[2] not in shown.out


def test_algorithms_are_rotated_together_or_one_by_one(here: Path) -> None:
    configure(here, every_algorithm=True)
    with serving(here):
        for algorithm in Algorithm:
            assert states(here, algorithm) == ["current", "next"]
        lines = key(here, "list").out.splitlines()
        assert [line.split()[0] for line in lines[1:9]] == [a for a in Algorithm for _ in "12"]
        assert key(here, "rotate", "--now", "--yes").code == 0
        for algorithm in Algorithm:
            assert len(states(here, algorithm)) == 3
        before = {algorithm: listed(here, algorithm) for algorithm in Algorithm}
        assert key(here, "rotate", "--now", "--yes", "--algorithm", "RS256").code == 0
        for algorithm in Algorithm:
            assert (listed(here, algorithm) != before[algorithm]) is (algorithm == "RS256")
        current = listed(here, "PS256")[1]
        assert current["state"] == "current"
        assert key(here, "withdraw", current["kid"], "--yes").code == 0
        assert states(here, "PS256") == ["retiring", "current", "next"]
        assert listed(here, "ES256") == before[Algorithm.ES256]


def test_an_algorithm_without_keys_is_not_rotated(here: Path) -> None:
    few = {"VALETKEY__TOKENS__SIGNING_ALGORITHMS": "ES256, EdDSA"}
    rotate = ("key", "rotate", "--yes", "--algorithm")
    ran = valetkey(*rotate, "RS256", here=here, environment=few)
    assert ran.code == 2
    assert "tokens.signing_algorithms" in ran.err
    assert valetkey(*rotate, "HS256", here=here, environment=few).code == 2
    assert key(here, "rotate", "sealing", "--algorithm", "ES256", "--yes").code == 2


def test_rotation_of_the_sealing_key_reseals_all_secrets(tmp_path: Path) -> None:
    configure(tmp_path)
    with serving(tmp_path):
        pass
    ran = key(tmp_path, "rotate", "sealing", "--yes")
    assert ran.code == 0
    assert "restart both servers" in ran.out
    assert key(tmp_path, "list", "--json").json["keyring"]["sealing_versions"] == [2, 1]
    assert (tmp_path / "valetkey/valetkey.keyring").stat().st_mode & 0o077 == 0
    _forget_the_first_sealing_key(tmp_path)
    with serving(tmp_path):
        assert states(tmp_path) == ["current", "next"]


def test_signing_secrets_are_resealed(tmp_path: Path) -> None:
    configure(tmp_path)
    with serving(tmp_path):
        pass
    signer = ClientMetadata(
        "Signer", grant_types=("client_credentials",), authentication_method="client_secret_jwt"
    )
    text = "s" * 32

    def register(foundation: Foundation, tx: Transaction) -> object:
        keeper, now = foundation.registrar("test"), foundation.runtime.now()
        return keeper.register(tx, signer, now, client_id="signer", secret=Secret(text))

    assert isinstance(_deed(tmp_path, register), Client)
    assert key(tmp_path, "rotate", "sealing", "--yes").code == 0
    _forget_the_first_sealing_key(tmp_path)

    def opened(foundation: Foundation, tx: Transaction) -> object:
        client = tx.clients.find("signer")
        assert client is not None
        secrets = foundation.shared_secrets.live_secrets(client, foundation.runtime.now())
        return [secret.reveal() for secret in secrets]

    assert _deed(tmp_path, opened) == [text]


def _deed(here: Path, work: Callable[[Foundation, Transaction], object]) -> object:
    async def story() -> object:
        # Any address will do, and a free port is none.
        urls = {
            "VALETKEY__AUTHORIZATION__URL": "http://127.0.0.1:8400",
            "VALETKEY__RESOURCE__URL": "http://127.0.0.1:8401",
        }
        foundation = build_foundation(load(here / "valetkey.toml", urls), SYSTEM, {})
        try:
            return await foundation.store.write(
                lambda tx: work(foundation, tx), done_by=USUAL_ACTOR
            )
        finally:
            await foundation.store.engine.close()

    return asyncio.run(story())


def _forget_the_first_sealing_key(here: Path) -> None:
    # What it sealed must have been sealed anew.
    keyring = here / "valetkey/valetkey.keyring"
    lines = keyring.read_text(encoding="ascii").splitlines(keepends=True)
    keyring.write_text("".join(line for line in lines if "sealing 1" not in line), "ascii")


def test_both_servers_use_the_rotated_credential(tmp_path: Path) -> None:
    configure(tmp_path)
    with serving(tmp_path):
        pass
    file = tmp_path / "valetkey/resource-server.credential"
    before = file.read_text(encoding="ascii")
    assert key(tmp_path, "rotate", "credential", "--yes").code == 0
    assert file.read_text(encoding="ascii") != before
    assert file.stat().st_mode & 0o077 == 0
    with serving(tmp_path):
        findings = valetkey("doctor", "--json", here=tmp_path).json["findings"]
    assert "ok" in [finding["level"] for finding in findings if finding["about"] == "credential"]


def test_backup_of_the_keyring_can_be_restored(tmp_path: Path) -> None:
    configure(tmp_path)
    with serving(tmp_path):
        pass
    folder, saved = tmp_path / "valetkey", tmp_path / "saved.keyring"
    assert key(tmp_path, "backup", str(saved)).code == 0
    assert saved.stat().st_mode & 0o777 == 0o600
    assert "file exists" in key(tmp_path, "backup", str(saved)).err
    texts = {
        name: (folder / name).read_text(encoding="ascii")
        for name in ("valetkey.keyring", "resource-server.credential")
    }
    for name in texts:
        (folder / name).unlink()
    assert key(tmp_path, "restore", str(saved)).code == 0
    for name, text in texts.items():
        assert (folder / name).read_text(encoding="ascii").strip() == text.strip()
        assert (folder / name).stat().st_mode & 0o077 == 0
    # A copy of the backup is a keyring too, for whoever restores by hand.
    shutil.copy(saved, folder / "valetkey.keyring")
    assert key(tmp_path, "list").code == 0


def test_restore_refuses_the_keyring_of_another_database(tmp_path: Path) -> None:
    configure(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    configure(other)
    assert valetkey("database", "migrate", here=other).code == 0
    assert key(other, "backup", str(tmp_path / "other.keyring")).code == 0
    with serving(tmp_path):
        pass
    keyring = tmp_path / "valetkey/valetkey.keyring"
    ours = keyring.read_bytes()
    ran = key(tmp_path, "restore", "other.keyring", "--yes")
    assert ran.code == 1
    assert "another database's" in ran.err
    assert keyring.read_bytes() == ours
    assert states(tmp_path) == ["current", "next"]


def test_restore_replaces_a_different_keyring_only_with_yes(tmp_path: Path) -> None:
    configure(tmp_path)
    with serving(tmp_path):
        pass
    assert key(tmp_path, "backup", "saved.keyring").code == 0
    keyring = tmp_path / "valetkey/valetkey.keyring"
    ours = keyring.read_text(encoding="ascii")
    keyring.write_text(ours + "# A note of the operator.\n", encoding="ascii")
    assert key(tmp_path, "restore", "saved.keyring").code == 2
    assert "A note" in keyring.read_text(encoding="ascii")
    assert key(tmp_path, "restore", "saved.keyring", "--yes").code == 0
    assert keyring.read_text(encoding="ascii") == ours


def test_backup_of_a_missing_keyring_is_refused_and_creates_nothing(tmp_path: Path) -> None:
    ran = key(tmp_path, "backup", "saved.keyring")
    assert ran.code == 2
    assert "there is no keyring" in ran.err
    assert list(tmp_path.iterdir()) == []


def test_invalid_backup_is_refused_without_repeating_its_content(tmp_path: Path) -> None:
    configure(tmp_path)
    (tmp_path / "no.keyring").write_text("sealing one hunter2\n", encoding="ascii")
    ran = key(tmp_path, "restore", "no.keyring", "--yes")
    assert ran.code == 2
    assert "hunter2" not in ran.out + ran.err
    assert not (tmp_path / "valetkey/valetkey.keyring").exists()
    assert key(tmp_path, "restore", "absent").code == 2


def test_the_name_of_a_key_may_begin_with_a_hyphen(tmp_path: Path) -> None:
    configure(tmp_path)
    assert valetkey("database", "migrate", here=tmp_path).code == 0
    ran = key(tmp_path, "withdraw", "-ptMLkDYfbmT6WOHVQRP-RWY5x3BNcjDKAKcEGex0EA", "--yes")
    assert (ran.code, ran.out) == (1, "")
    assert "this signing key does not exist" in ran.err


def test_signing_key_is_withdrawn_while_the_servers_run(tmp_path: Path) -> None:
    configure(tmp_path)
    with serving(tmp_path):
        leaked = listed(tmp_path)[0]["kid"]
        assert key(tmp_path, "withdraw", leaked).code == 2
        assert key(tmp_path, "withdraw", leaked, "--yes").code == 0
        assert key(tmp_path, "withdraw", leaked, "--yes").code == 1
        assert states(tmp_path) == ["current", "next"]
        assert leaked not in [entry["kid"] for entry in listed(tmp_path)]
