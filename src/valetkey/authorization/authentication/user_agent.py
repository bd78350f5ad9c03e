"""Names of a browser and its system for display: "Firefox", "Linux"."""

_BROWSERS = (
    ("Edg", "Edge"),
    ("OPR/", "Opera"),
    ("SamsungBrowser/", "Samsung Internet"),
    ("Vivaldi/", "Vivaldi"),
    ("FxiOS/", "Firefox"),
    ("Firefox/", "Firefox"),
    ("CriOS/", "Chrome"),
    ("HeadlessChrome/", "Chrome"),
    ("Chromium/", "Chromium"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
)
# Browsers include each other's names: the first match is the most specific.
_SYSTEMS = (
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android"),
    ("Windows", "Windows"),
    ("Macintosh", "Mac"),
    ("X11; Cr", "ChromeOS"),
    ("Linux", "Linux"),
)


def browser_of(user_agent: str) -> tuple[str, str]:
    """Return the names of browser and system, each "" if unknown.

    Only a hint: clients can send any User-Agent.
    """
    return _first(_BROWSERS, user_agent), _first(_SYSTEMS, user_agent)


def _first(names: tuple[tuple[str, str], ...], text: str) -> str:
    return next((name for mark, name in names if mark in text), "")
