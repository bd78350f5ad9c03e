"""Debian's Apache; with mod_auth_openidc in front of a page, configured as its preset prints."""

import os
import pwd
import socket
import subprocess
import tempfile
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.clients.programs import APACHE_MODULES
from tests.support.wait import CEILING
from valetkey.authorization.actions.presets import PRESETS
from valetkey.kernel.replace import replace
from valetkey.kernel.runtime import SYSTEM
from valetkey.testing.server import Servers

CLIENT, SECRET = "apache", "a-secret-of-the-apache-with-more-than-32"
_PATIENCE = CEILING
_LOADED = (
    "mpm_event",
    "authn_core",
    "authz_core",
    "authz_user",
    "dir",
    "mime",
    "headers",
)

_CONFIGURATION = """
ServerRoot {folder}
ServerName 127.0.0.1
Listen 127.0.0.1:{port}
PidFile {folder}/pid
DefaultRuntimeDir {folder}
Mutex file:{folder} default
{user}
{modules}
ErrorLog {folder}/log
LogLevel warn
TypesConfig /dev/null
AddType text/html .html
DocumentRoot {folder}/pages
<Location />
    Require all granted
</Location>
"""

_GUARDED = """
OIDCPassClaimsAs environment
Include openidc.conf
<Location /guarded/>
    # So that the page's reader sees whom Apache sees.
    Header always set X-Seen-Subject "expr=%{REMOTE_USER}"
    Header always set X-Seen-Name "expr=%{reqenv:OIDC_CLAIM_given_name}"
</Location>
"""


@dataclass(frozen=True)
class Site:
    """The site that Apache guards."""

    servers: Servers
    url: str
    log: Path

    @property
    def page(self) -> str:
        """The page that only people who signed in can read."""
        return f"{self.url}/guarded/page.html"

    @property
    def bye(self) -> str:
        """Where who signed out arrives; everybody may read it."""
        return f"{self.url}/bye.html"


@contextmanager
def guarded(program: str, servers: Servers) -> Generator[Site]:
    """Apache with its client registered, while this lasts."""
    port = _free_port()
    url = f"http://127.0.0.1:{port}"
    preset = PRESETS["apache"]
    draft = replace(preset.metadata(preset.label), redirect_uris=(f"{url}/guarded/back",))
    metadata = preset.completed(draft)
    openid = replace(
        metadata.openid,
        backchannel_logout_uri=f"{url}/guarded/back?logout=backchannel",
        backchannel_logout_session_required=True,
    )
    client = servers.register_client(replace(metadata, openid=openid), CLIENT, SECRET)
    printed, landing = preset.configuration(client, CLIENT, servers.auth_url, SECRET, SYSTEM.random)
    files = {
        printed.name: printed.text,
        "pages/guarded/page.html": "<p id=page>for members</p>",
        f"pages/{landing.name}": f"{landing.text}<p id=bye>good bye</p>",
    }
    with apache(program, port, "auth_openidc", _GUARDED, files) as log:
        yield Site(servers, url, log)


@contextmanager
def apache(
    program: str, port: int, module: str, site: str, files: Mapping[str, str]
) -> Generator[Path]:
    """Apache with these files in its folder, while this lasts; its log."""
    # Not below pytest's folder: who starts Apache as root has it read as somebody else.
    with tempfile.TemporaryDirectory(prefix="apache-") as name:
        folder = Path(name)
        for path, text in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
        _write(folder, port, module, site)
        command = [program, "-f", str(folder / "apache.conf"), "-DFOREGROUND"]
        done = subprocess.run([*command, "-t"], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        try:
            _await(port, process, folder / "log")
            yield folder / "log"
        finally:
            process.terminate()
            process.wait(_PATIENCE)


def _write(folder: Path, port: int, module: str, site: str) -> None:
    user = ""
    if os.geteuid() == 0:
        somebody = pwd.getpwnam("www-data")
        user = "User www-data\nGroup www-data"
        for path in (folder, *folder.rglob("*")):
            os.chown(path, somebody.pw_uid, somebody.pw_gid)
    modules = [
        f"LoadModule {name}_module {APACHE_MODULES / f'mod_{name}.so'}"
        for name in (*_LOADED, module)
        if (APACHE_MODULES / f"mod_{name}.so").exists()
    ]
    (folder / "apache.conf").write_text(
        _CONFIGURATION.format(
            folder=folder,
            port=port,
            user=user,
            modules="\n".join(modules),
        )
        + site
    )


def _await(port: int, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text() if log.exists() else "Apache ended"
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError("Apache does not listen")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port: int = sock.getsockname()[1]
        return port
