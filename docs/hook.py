"""The build hook of Hatch: every wheel and source distribution has the documentation."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# The generator and its theme in the tested version; the rest may be what the backend brings.
_PINNED = re.compile(r"^zensical==[^ \\]+", re.MULTILINE)
# The modules of this folder, also where those of another checkout are installed.
_BUILD = """
import runpy, sys
sys.path[:0] = ["."]
runpy.run_module("docs.site", run_name="__main__", alter_sys=True)
"""


class DocumentationHook(BuildHookInterface[Any]):
    """Build the site. A source distribution has it, and an editable installation needs none."""

    def dependencies(self) -> list[str]:
        """Return what the build imports, which pip installs into its environment."""
        if not self._builds:
            return []
        lock = Path(self.root, "docs/site.lock").read_text(encoding="utf-8")
        return _PINNED.findall(lock)

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the archive that the distribution includes."""
        if self._builds and version != "editable":
            subprocess.run((sys.executable, "-P", "-c", _BUILD), cwd=self.root, check=True)

    @property
    def _builds(self) -> bool:
        return not Path(self.root, "PKG-INFO").exists()
