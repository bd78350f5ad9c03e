"""Release a clean commit of `main`: `python -m release 0.2.0 [--key FILE]`.

Checks and tests it, makes the files of `release.package` in `build/package`, and tags the commit.
With an SSH key it signs the checksums and the tag. It publishes nothing.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

from release.package import OUT, ROOT, SUMS, attempt, write

_VERSION = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+(?:(?:a|b|rc)[0-9]+)?")
_SIGNATURES = "valetkey-release"


def main(arguments: list[str]) -> int:
    """Refuse with every reason at once, or check, test, build and tag."""
    parser = argparse.ArgumentParser(prog="make release")
    parser.add_argument("version")
    parser.add_argument("--key", type=Path, help="a private SSH key to sign with")
    parser.add_argument("--build-only", action="store_true", help="build what is tagged already")
    options = parser.parse_args(arguments)
    version: str = options.version
    reasons = [] if options.build_only else reasons_against(ROOT, version)
    if reasons:
        print(*(f"release: {reason}" for reason in reasons), sep="\n", file=sys.stderr)
        return 1
    if not options.build_only:
        for target in ("check", "test"):
            _run("make", target)
    write(ROOT, OUT, needs_image=options.build_only)
    if not options.build_only and (code := attempt(OUT)):
        return code
    sums = OUT / SUMS
    print(sums.read_text(), end="")
    if options.key:
        _run("ssh-keygen", "-Y", "sign", "-f", str(options.key), "-n", _SIGNATURES, str(sums))
    if not options.build_only:
        _tag(version, options.key)
        print(f"tagged v{version}; `git push origin v{version}` publishes")
    return 0


def reasons_against(root: Path, version: str) -> list[str]:
    """Return why `version` cannot be released from this folder now; empty if it can."""
    if not _VERSION.fullmatch(version):
        return [f'"{version}" is not a version such as 0.2.0 or 0.2.0rc1']
    reasons: list[str] = []
    if f'\nversion = "{version}"\n' not in (root / "pyproject.toml").read_text():
        reasons.append(f"pyproject.toml has another version than {version}")
    changelog = (root / "CHANGELOG.md").read_text()
    heading = rf"^## \[{re.escape(version)}\] - [0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}\n+(?!##)\S"
    if not re.search(heading, changelog, re.MULTILINE):
        reasons.append(f"CHANGELOG.md has no section [{version}] with its date and what changed")
    if _git(root, "status", "--porcelain"):
        reasons.append("there are changes that are not committed")
    if (branch := _git(root, "rev-parse", "--abbrev-ref", "HEAD")) != "main":
        reasons.append(f"this is branch {branch}, not main")
    if _git(root, "tag", "--list", f"v{version}"):
        reasons.append(f"there is a tag v{version}")
    return reasons


def _tag(version: str, key: Path | None) -> None:
    signing = ("-c", "gpg.format=ssh", "-c", f"user.signingkey={key}") if key else ()
    kind = "--sign" if key else "--annotate"
    _run("git", *signing, "tag", kind, "--message", f"Valetkey {version}", f"v{version}")


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def _run(*command: str) -> None:
    subprocess.run(command, cwd=ROOT, check=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
