"""Every error of a command names the page of the documentation that helps."""

from pathlib import Path

from tests.architecture.tree import ROOT
from tests.cli.running import valetkey as run_quickly
from valetkey.cli.guides import GUIDES, page_of
from valetkey.cli.main import COMMANDS
from valetkey.config.catalogue import catalogue


def test_every_guide_is_a_page() -> None:
    missing = [guide.page for guide in GUIDES if not (ROOT / f"docs/{guide.page}.md").is_file()]
    assert not missing


def test_every_command_and_every_setting_has_a_page() -> None:
    without = {"config"}
    assert {command.name for command in COMMANDS if not page_of(command.name)} == without
    named = {name for guide in GUIDES for name in guide.settings}
    settings = catalogue()
    assert not {name for name in named if not any(path.startswith(name) for path in settings)}
    assert page_of("serve", "limits.connections") == "reference/settings"


def test_place_in_a_file_of_objects_has_the_page_of_the_command() -> None:
    assert page_of("apply", "groups[printers].members") == "how-to/operate/keep-objects-in-a-file"


def test_longest_match_wins() -> None:
    assert page_of("database restore --yes") == "how-to/operate/back-up-and-restore"
    assert page_of("database check") == "how-to/operate/run-on-postgresql"
    assert page_of("serve", "authorization.tls_proxy") == "how-to/operate/run-behind-a-proxy"
    assert page_of("serve", "authorization.keyring_text") == "how-to/operate/back-up-and-restore"


def test_error_names_the_page(tmp_path: Path) -> None:
    (tmp_path / "valetkey.toml").write_text("[mail]\nport = 70000\n")
    ran = run_quickly("serve", here=tmp_path)
    assert ran.err.splitlines()[-1] == f"Documentation: {ROOT}/docs/how-to/operate/send-mail.md"
    # A server that does not run shows no page.
    (tmp_path / "valetkey.toml").write_text('[authorization]\nurl = "http://localhost:8461"\n')
    ran = run_quickly("explain", "VK-wrong", here=tmp_path)
    assert ran.err.endswith("/docs/how-to/apps/read-a-refusal.md\n")
    assert "http:" not in ran.err
    (tmp_path / "valetkey.toml").write_text(
        '[authorization]\nurl = "https://auth.example.com"\ntls_proxy = true\n'
        '[docs]\nurl = "https://docs.example.com"\n'
    )
    ran = run_quickly("explain", "VK-wrong", "--config", "valetkey.toml", here=tmp_path)
    assert "Documentation: https://docs.example.com/how-to/apps/read-a-refusal.html" in ran.err
