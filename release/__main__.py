"""Build a release: `python -m release 0.2.0 [--key FILE]`, from a clean commit of `main`.

Writes the wheels, the source distribution, the bill of materials and the checksums to `dist/`, and
tags the commit. With an SSH key it signs the checksums and the tag. It publishes nothing.
"""

import argparse
import hashlib
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
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
    out = ROOT / "dist"
    files = build(ROOT, out)
    with tempfile.TemporaryDirectory() as again:
        if checksums(build(ROOT, Path(again))) != checksums(files):
            print("release: two builds of one commit differ", file=sys.stderr)
            return 1
    sums = out / "SHA256SUMS"
    sums.write_text(checksums([*files, bill_of_materials(ROOT, out)]))
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


def build(root: Path, out: Path) -> list[Path]:
    """Build the committed files of HEAD into `out`: both wheels, and the source distribution."""
    out.mkdir(parents=True, exist_ok=True)
    clock = {"SOURCE_DATE_EPOCH": _git(root, "log", "-1", "--format=%ct")}
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(
            ["git", "archive", "HEAD"], cwd=root, check=True, capture_output=True
        )
        subprocess.run(["tar", "--extract", "-C", folder], input=archive.stdout, check=True)
        _run(sys.executable, "-m", "docs.site", folder)
        made = Path(folder) / "made"
        uv = (sys.executable, "-m", "uv", "build", "--quiet", "--offline", "--no-build-isolation")
        _run(*uv, "--sdist", "--wheel", "--out-dir", str(made), folder, **clock)
        _run(*uv, "--wheel", "--out-dir", str(made), f"{folder}/release/sdk", **clock)
        built = sorted(path for path in made.iterdir() if path.suffix in {".whl", ".gz"})
        return [path.replace(out / path.name) for path in built]


def bill_of_materials(root: Path, out: Path) -> Path:
    """Write what the pinned runtime consists of, as CycloneDX 1.6 JSON."""
    path = out / "valetkey.cdx.json"
    # Tools of this one step, pinned beside it: nobody who develops or runs Valetkey needs them.
    tool = ("run", "--quiet", "--no-project", "--with-requirements", "release/tools.lock")
    source = ("requirements", str(root / "requirements.lock"))
    project = ("--pyproject", str(root / "pyproject.toml"), "--mc-type", "application")
    kind = ("--output-reproducible", "--spec-version", "1.6", "--output-format", "JSON")
    command = ("-m", "uv", *tool, "cyclonedx-py", *source, *project, *kind)
    _run(sys.executable, *command, "--output-file", str(path))
    return path


def checksums(files: list[Path]) -> str:
    """Return lines as `sha256sum` writes and checks them."""
    return "".join(
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(files)
    )


def _tag(version: str, key: Path | None) -> None:
    signing = ("-c", "gpg.format=ssh", "-c", f"user.signingkey={key}") if key else ()
    kind = "--sign" if key else "--annotate"
    _run("git", *signing, "tag", kind, "--message", f"Valetkey {version}", f"v{version}")


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def _run(*command: str, **environment: str) -> None:
    subprocess.run(command, cwd=ROOT, check=True, env={**os.environ, **environment})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
