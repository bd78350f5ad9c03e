"""`make interop`: an API behind Apache with mod_oauth2, as the page about Apache says."""

import shutil
from pathlib import Path

from bench.ports import free_port
from tests.clients.openid.apache import apache
from tests.clients.protected import READ, SYNC, ask, issuer

_SITE = """
DirectoryIndex api.json
<Location />
    AuthType oauth2
    OAuth2TokenVerify jwks_uri {issuer}/oauth/jwks
    <RequireAll>
        Require oauth2_claim aud:{identifier}
        Require oauth2_claim scope:{scope}
    </RequireAll>
</Location>
"""


def test_mod_oauth2_accepts_tokens_for_its_api_only(tmp_path: Path) -> None:
    program = shutil.which("apache2", path="/usr/sbin")
    assert program is not None, "Apache is missing"
    with issuer(tmp_path / "issuer") as it:
        port = free_port()
        site = _SITE.format(
            issuer=it.servers.auth_url, identifier=it.calendar.identifier, scope=READ
        )
        files = {"pages/api.json": '{"client": "robot"}'}
        with apache(program, port, "oauth2", site, files):
            url = f"http://127.0.0.1:{port}/"
            others = it.token(SYNC), it.token(READ, "https://files.example.com"), "no.token.atall"
            assert ask(url, it.token(READ)) == (200, {"client": "robot"})
            # A token without the scope is answered like an invalid one.
            assert [ask(url, token)[0] for token in (*others, "")] == [401] * 4
