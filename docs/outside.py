"""Ask every link of the documentation that leads outside: `make outside-links`.

It needs the network and depends on other sites, so it runs weekly and not before each change. A
site that refuses programs (403, 405, 429) counts as reachable.
"""

import re
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

ROOT = Path(__file__).parents[1]
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((https://[^)\s#]+)")
_EXAMPLE = re.compile(r"https://([\w-]+\.)*(example(\.com|\.org)?|localhost)\b")
_REFUSES_PROGRAMS = {403, 405, 429}
_TIMEOUT = 20
_AT_ONCE = 8


def outside(pages: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return each https link outside code, and the first page that has it."""
    links: dict[str, str] = {}
    for page, text in pages:
        for url in _LINK.findall(_FENCE.sub("", text)):
            if not _EXAMPLE.match(url):
                links.setdefault(url, page)
    return links


def fault_of(url: str) -> str:
    """Return why a page cannot be read; "" if it can."""
    request = Request(url, headers={"User-Agent": "valetkey-documentation"})  # noqa: S310
    try:
        with urlopen(request, timeout=_TIMEOUT):  # noqa: S310
            return ""
    except HTTPError as error:
        return "" if error.code in _REFUSES_PROGRAMS else f"status {error.code}"
    except (URLError, OSError) as error:
        return str(error)


def main() -> int:
    """Print every dead link with its page; 1 if there are any."""
    listed = subprocess.run(
        ["git", "ls-files", "*.md"],  # noqa: S607
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    names = listed.stdout.split()
    links = outside((name, (ROOT / name).read_text(encoding="utf-8")) for name in names)
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        faults = dict(zip(links, threads.map(fault_of, links), strict=True))
    for url, fault in faults.items():
        if fault:
            print(f"{links[url]}: {url}: {fault}")  # noqa: T201
    print(f"{len(links)} links, {sum(map(bool, faults.values()))} dead")  # noqa: T201
    return 1 if any(faults.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
