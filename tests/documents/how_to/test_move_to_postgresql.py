"""The guide to PostgreSQL, followed there and back again."""

from pathlib import Path

from tests.documents.pages import blocks
from tests.documents.shell import Terminal

PAGE = "docs/how-to/operate/move-to-postgresql.md"


def test_guide_moves_a_site_to_postgresql_and_back(
    tmp_path: Path, postgres_url: str, another_postgres_url: str
) -> None:
    (apply,) = (
        b for b in blocks("docs/how-to/apps/register-a-client.md") if b.title == "apply.toml"
    )
    server = "postgresql://{0}@db.example.com/{0}"
    instead = {
        server.format("valetkey_authorization"): postgres_url,
        server.format("valetkey_resource"): another_postgres_url,
        "/var/lib/valetkey/": f"{tmp_path}/valetkey/",
    }
    terminal = Terminal(tmp_path, instead)
    (tmp_path / "valetkey.toml").write_text("")
    terminal.write(apply)
    terminal.run("valetkey apply apply.toml --config valetkey.toml --yes")
    terminal.run("valetkey database migrate --config valetkey.toml")
    postgresql, back = (block for block in blocks(PAGE) if block.language == "toml")
    (tmp_path / "postgresql.toml").write_text(terminal.adapted(postgresql.code))
    (tmp_path / "back.toml").write_text(terminal.adapted(back.code))
    _, check, copy, verify, _, copy_back = (b for b in blocks(PAGE) if b.language == "sh")
    terminal.run(check.code)
    assert "compared" in terminal.run(copy.code)
    terminal.run(verify.code)
    assert "printer" in terminal.run("valetkey client list --config postgresql.toml")
    terminal.run(copy_back.code)
    assert "printer" in terminal.run("valetkey client list --config back.toml")
