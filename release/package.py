"""Make everything that a release has, and try it in empty environments: `make package`.

Writes to `build/package` what the last commit builds: both wheels, the source distribution, the
Helm chart, the documentation, the image if a container builder works here, the bill of materials,
and the checksums. It publishes nothing.
"""

import argparse
import gzip
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

from valetkey.authorization.site.documentation import ARCHIVE

ROOT = Path(__file__).parents[1]
OUT = ROOT / "build/package"
SUMS = "SHA256SUMS"
_CHART = "deploy/helm/valetkey"
_CONTAINERFILE = "deploy/container/Containerfile"
_BUILDERS = {
    "docker": (("build",), ("save", "--output", "{file}", "{tag}"), ("run", "--rm", "{tag}")),
    "podman": (
        ("build", "--format", "docker"),
        ("save", "--output", "{file}", "{tag}"),
        ("run", "--rm", "{tag}"),
    ),
    "buildah": (
        ("build", "--format", "docker"),
        ("push", "{tag}", "docker-archive:{file}:{tag}"),
        (),
    ),
}
"""How each program builds an image, saves it to a file, and runs it."""


class Unavailable(Exception):
    """No image can be built here; the message says what is missing."""


def main(arguments: list[str]) -> int:
    """Make the files and try them; return 1 if one of them does not work."""
    parser = argparse.ArgumentParser(prog="make package")
    parser.add_argument("--base", help="the base image, in place of that of the Containerfile")
    options = parser.parse_args(arguments)
    if _git(ROOT, "status", "--porcelain"):
        print("package: changes that are not committed are left out", file=sys.stderr)
    files = write(ROOT, OUT, base=options.base)
    if code := attempt(OUT):
        return code
    version = _version(ROOT)
    print(f"Valetkey {version}, in {OUT.relative_to(ROOT)}, tried in empty environments:")
    for path in (*files, OUT / SUMS):
        print(f"  {path.stat().st_size / 1e6:7.1f} MB  {path.name}")
    print(f"To tag and publish it: make release VERSION={version}, then git push origin v{version}")
    return 0


def write(
    root: Path, out: Path, *, base: str | None = None, needs_image: bool = False
) -> list[Path]:
    """Replace the content of `out` by the files of HEAD and their checksums; return the files.

    Raises Unavailable if it `needs_image` and cannot build it.
    """
    shutil.rmtree(out, ignore_errors=True)
    _say("Building both wheels, the source distribution, the chart and the documentation …")
    files = build(root, out)
    _say("Writing the bill of materials …")
    files.append(bill_of_materials(root, out))
    _say("Building the image …")
    try:
        files.append(image(root, out, base))
    except Unavailable as reason:
        if needs_image:
            raise
        _say(f"No image: {reason}")
    (out / SUMS).write_text(checksums(files))
    return sorted(files)


def attempt(out: Path) -> int:
    """Install and run the files in empty environments; return the exit code of the tests."""
    _say("Trying the files in empty environments …")
    tests = (sys.executable, "-m", "pytest", "-q", "tests/release")
    environment = {**os.environ, "VALETKEY_PACKAGE": str(out)}
    return subprocess.run(tests, cwd=ROOT, check=False, env=environment).returncode


def build(root: Path, out: Path) -> list[Path]:
    """Build what is the same bytes for the same commit: all but bill of materials and image."""
    out.mkdir(parents=True, exist_ok=True)
    clock = _git(root, "log", "-1", "--format=%ct")
    version = _version(root)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _export(root, folder)
        made = folder / "made"
        uv = (sys.executable, "-m", "uv", "build", "--quiet", "--offline", "--no-build-isolation")
        # The wheel of the servers is built from the source distribution.
        for what in ((name,), ("--wheel", f"{name}/release/sdk")):
            _run(*uv, "--out-dir", str(made), *what, SOURCE_DATE_EPOCH=clock)
        packages = [path for path in made.iterdir() if path.suffix in {".whl", ".gz"}]
        files = [Path(shutil.move(path, out / path.name)) for path in packages]
        documentation = out / f"valetkey-docs-{version}.zip"
        shutil.copyfile(folder / ARCHIVE.relative_to(ROOT), documentation)
        chart = out / f"valetkey-chart-{version}.tgz"
        chart.write_bytes(archive(folder / _CHART, int(clock)))
    return sorted([*files, documentation, chart])


def archive(folder: Path, clock: int) -> bytes:
    """Return the folder as a compressed tar file, the same bytes for the same content."""

    def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.mtime, entry.mode = clock, 0o755 if entry.isdir() else 0o644
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        return entry

    content = BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            tar.add(path, str(path.relative_to(folder.parent)), filter=plain)
    return gzip.compress(content.getvalue(), mtime=clock)


def bill_of_materials(root: Path, out: Path) -> Path:
    """Write what the pinned runtime consists of, as CycloneDX 1.6 JSON."""
    path = out / "valetkey.cdx.json"
    # Tools of this one step, pinned beside it: nobody who develops or runs Valetkey needs them.
    tool = ("run", "--quiet", "--no-project", "--with-requirements", "release/tools.lock")
    source = ("requirements", str(root / "requirements.lock"))
    project = ("--pyproject", str(root / "pyproject.toml"), "--mc-type", "application")
    kind = ("--output-reproducible", "--spec-version", "1.6", "--output-format", "JSON")
    command = ("-m", "uv", *tool, "cyclonedx-py", *source, *project, *kind)
    # It warns that a list of requirements does not tell what depends on what.
    _run(sys.executable, *command, "--output-file", str(path), PYTHONWARNINGS="ignore")
    return path


def image(root: Path, out: Path, base: str | None = None) -> Path:
    """Build the image and save it as an archive. Raises Unavailable."""
    program = _builder()
    build_words, save_words, run_words = _BUILDERS[program]
    version = _version(root)
    file = out / f"valetkey-image-{version}.tar"
    named = {"file": str(file), "tag": f"valetkey:{version}"}
    with tempfile.TemporaryDirectory() as name:
        _export(root, Path(name))
        based = ("--build-arg", f"BASE={base}") if base else ()
        tagged = ("--file", f"{name}/{_CONTAINERFILE}", "--tag", named["tag"])
        try:
            _run(program, *build_words, *based, *tagged, name)
        except subprocess.CalledProcessError:
            advice = "is its base image within reach? BASE names another"
            raise Unavailable(f"{program} could not build it; {advice}") from None
    _run(program, *(word.format_map(named) for word in save_words))
    if run_words:
        _run(program, *(word.format_map(named) for word in run_words), "--version")
    return file


def _builder() -> str:
    """Return the first container builder that works here. Raises Unavailable."""
    reasons: list[str] = []
    for program in _BUILDERS:
        if shutil.which(program) is None:
            reasons.append(f"{program} is not installed")
            continue
        done = subprocess.run([program, "info"], check=False, capture_output=True, text=True)
        if done.returncode == 0:
            return program
        reasons.append(f"{program}: {done.stderr.strip().splitlines()[-1]}")
    raise Unavailable("; ".join(reasons))


def checksums(files: Sequence[Path]) -> str:
    """Return lines as `sha256sum` writes and checks them."""
    return "".join(
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(files)
    )


def _export(root: Path, folder: Path) -> None:
    """Write the committed files of HEAD into the folder."""
    exported = subprocess.run(["git", "archive", "HEAD"], cwd=root, check=True, capture_output=True)
    subprocess.run(["tar", "--extract", "-C", folder], input=exported.stdout, check=True)


def _version(root: Path) -> str:
    version: str = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    return version


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def _run(*command: str, **environment: str) -> None:
    subprocess.run(command, cwd=ROOT, check=True, env={**os.environ, **environment})


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
