"""`valetkey group`: the commands of the guide, one after the other."""

import shlex
from pathlib import Path

from tests.cli.running import Ran, valetkey
from tests.cli.site import begin
from tests.documents.pages import blocks

PAGES = [f"docs/how-to/people/{page}.md" for page in ("groups", "claims", "api-roles")]


def test_commands_of_the_guide_do_what_it_says(tmp_path: Path) -> None:
    begin(tmp_path)
    ada = ("user", "create", "ada", "--email", "ada@example.com", "--generate-password")
    assert valetkey(*ada, here=tmp_path).code == 0
    api = ("api", "declare", "--identifier", "https://api.example.com", "--name", "Example")
    made = valetkey(*api, "--json", here=tmp_path)
    assert made.code == 0, made.err
    ran: dict[str, Ran] = {}
    for block in (code_block for page in PAGES for code_block in blocks(page)):
        if block.language == "sh":
            for line in block.code.replace("API_ID", made.json["api_id"]).splitlines():
                done = ran[line] = valetkey(*shlex.split(line)[1:], here=tmp_path)
                assert done.code == 0, f"{line}\n{done.out}\n{done.err}"
    of_ada = valetkey("user", "groups", "ada", "--json", here=tmp_path).json
    assert (of_ada["direct"], of_ada["all"]) == (["engineering"], ["engineering", "staff"])
    (listed,) = valetkey("group", "members", "engineering", "--json", here=tmp_path).json
    assert listed["username"] == "ada"
    client = valetkey("client", "show", "grafana", "--json", here=tmp_path).json
    assert client["required_groups"] == ["staff"]
    preview = valetkey(
        "claims", "preview", "--user", "ada", "--client", "grafana", "--json", here=tmp_path
    )
    assert preview.json["id_token"]["department"] == preview.json["userinfo"]["department"]
    assert preview.json["access_token"]["teams"] == ["engineering"]
    assert valetkey("group", "remove", "engineering", "ada", here=tmp_path).code == 0
    again = valetkey("group", "remove", "engineering", "ada", here=tmp_path)
    assert "nothing changed" in again.out
    full = valetkey("group", "delete", "staff", "--yes", here=tmp_path)
    assert full.code != 0
    assert "contains groups" in full.err
    for name in ("engineering", "staff"):
        assert valetkey("group", "delete", name, "--yes", here=tmp_path).code == 0
    assert valetkey("group", "list", "--json", here=tmp_path).json == []
