"""The guide to objects in a file, followed."""

from pathlib import Path

from tests.documents.pages import blocks
from tests.documents.shell import Terminal


def test_guide_exports_adopts_and_prunes(tmp_path: Path) -> None:
    page = list(blocks("docs/how-to/operate/keep-objects-in-a-file.md"))
    begin, adopt, plan, prune = (block.code for block in page if block.language == "sh")
    file, brand = (block for block in page if block.title == "apply.toml")
    (shown,) = (block.code for block in page if block.language == "text")
    (tmp_path / "valetkey.toml").write_text('[tokens]\nsigning_algorithms = ["ES256"]\n')
    terminal = Terminal(tmp_path, {})
    (tmp_path / "apply.toml").write_text(file.code)
    terminal.run("valetkey apply apply.toml --yes")
    assert terminal.run(begin).endswith("Nothing to change.\n")
    (tmp_path / "apply.toml").write_text(file.code)
    terminal.run(adopt)
    (tmp_path / "apply.toml").write_text(file.code.partition("[[clients]]")[0])
    assert terminal.run(plan) == shown
    assert "1 removed" in terminal.run(prune)
    (tmp_path / "apply.toml").write_text(brand.code)
    assert "~ brand Acme: name, accent, terms_url" in terminal.run(
        "valetkey apply apply.toml --yes"
    )
