"""What a browser calls itself, in two words that people know: "Firefox", "Linux"."""

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
# Browsers call themselves after each other: the first that fits says most.
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
    """The names of browser and system, each "" where nothing known is said.

    Only a hint: everybody can call themselves anything.
    """
    return _first(_BROWSERS, user_agent), _first(_SYSTEMS, user_agent)


def _first(names: tuple[tuple[str, str], ...], text: str) -> str:
    return next((name for mark, name in names if mark in text), "")
