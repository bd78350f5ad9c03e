"""Redirect URIs that look like `https://app.example/cb` and `http://127.0.0.1/cb`, and are not."""

from tests.support.live import CALLBACK

NOT_REGISTERED = {
    "ru-03-user-name": (
        "https://app.example@evil.test/cb",
        "https://app.example:x@evil.test/cb",
        "https://app.example:443@evil.test/cb",
        "https://user@app.example/cb",
        "https://@app.example/cb",
        "https://:@app.example/cb",
    ),
    "ru-05-several-at": ("https://a@b@evil.test/cb", "https://app.example@@evil.test/cb"),
    "ru-05-at-encoded": (
        "https://app.example%40evil.test/cb",
        "https://evil.test%2540app.example/cb",
        "https://evil.test/@app.example/cb",
        "https://evil.test/?@app.example/cb",
        "https://evil.test/#@app.example/cb",
    ),
    "ru-07-backslash": (
        r"https://evil.test\@app.example/cb",
        r"https://app.example\.evil.test/cb",
        r"https:\\evil.test\cb",
        r"https://app.example\cb",
        r"https:/\app.example/cb",
        "https://app.example%5ccb",
        "https://evil.test%5c@app.example/cb",
    ),
    "ru-09-path": tuple(
        f"https://app.example{path}"
        for path in ("/cb/x", "/cbx", "/c", "/cb/", "", "/", "//cb", "/x/../cb", "/./cb", "/cb/.")
    ),
    "ru-09-path-encoded": tuple(
        f"https://app.example{path}"
        for path in ("/%63b", "/c%62", "/cb%2f", "/cb%00", "/%2e/cb", "/x/%2e%2e/cb", "%2fcb")
    ),
    "ru-09-what-is-appended": tuple(
        CALLBACK + more for more in ("?", "?x=1", "#", "#x", "&", "%20", "+", ".", "%0a", "%23")
    ),
    "ru-09-controls": tuple(
        text
        for control in ("\0", "\t", "\n", "\r", "\r\n", "\x1f", "\x7f", " ", "\x85", "\u2028")
        for text in (
            CALLBACK + control,
            control + CALLBACK,
            f"https://app.example{control}/cb",
            f"https://evil.test/{control}@app.example/cb",
        )
    ),
    "ru-11-case": (
        "https://APP.example/cb",
        "HTTPS://app.example/cb",
        "https://app.example/CB",
        "https://app.examplE/cb",
    ),
    "ru-11-host-spelt-otherwise": (
        "https://app.example./cb",
        "https://app.example:443/cb",
        "https://app.example:/cb",
        "https://app%2eexample/cb",
        "https://app.example%00.evil.test/cb",
        "https://app.example.evil.test/cb",
        "https://evilapp.example/cb",
        "https://evil.app.example/cb",
        "https://app.example,evil.test/cb",
        "https://app.example;evil.test/cb",
        "https://[app.example]/cb",
    ),
    "ru-15-path-parameters": (
        "https://app.example/cb;evil=1",
        "https://app.example/cb;jsessionid=1",
        "https://app.example;evil=1/cb",
        "https://app.example/;x=1/cb",
    ),
    "ru-17-scheme": (
        "http://app.example/cb",
        "ftp://app.example/cb",
        "ws://app.example/cb",
        "javascript://app.example/cb",
        "javascript:alert(1)//app.example/cb",
        "data:text/html,<script>alert(1)</script>",
        "vbscript:msgbox(1)",
        "file:///app.example/cb",
        "about:blank",
        "blob:https://app.example/cb",
        "urn:ietf:wg:oauth:2.0:oob",
        "com.example.app:/cb",
    ),
    "ru-19-relative": (
        "//app.example/cb",
        "///app.example/cb",
        "/cb",
        "cb",
        "app.example/cb",
        "https:app.example/cb",
        "https:/app.example/cb",
        "https:///app.example/cb",
        "?",
        ".",
        "*",
        "null",
        "undefined",
    ),
    "ru-27-ports": tuple(
        f"https://app.example:{port}/cb"
        for port in (
            "0",
            "1",
            "65536",
            "99999999999",
            "abc",
            "-1",
            "+443",
            "0443",
            "443.",
            "４４３",
        )
    ),
    "ru-29-international": (
        "https://аpp.example/cb",
        "https://evil。example/cb",
        "https://app。example/cb",
        "https://xn--pp-7ic.example/cb",
        "https://app.example／cb",
        "https://app.example℀evil.test/cb",
        "https://ａpp.example/cb",
        "https://app.example\u200b/cb",
        "https://app.example\u00ad/cb",
        "https://app.example/cb\u202e",
        "https://app.example/ｃb",
        "ｈttps://app.example/cb",
    ),
}
LOOK_LIKE_LOOPBACK = (
    "http://127.0.0.1.evil.test/cb",
    "http://localhost.evil.test/cb",
    "http://localhost/cb",
    "http://LOCALHOST:1024/cb",
    "http://127.1/cb",
    "http://2130706433/cb",
    "http://0x7f.1/",
    "http://0x7f000001/cb",
    "http://0177.0.0.1/",
    "http://127.0.0.1./cb",
    "http://127.000.000.001/cb",
    "http://[::ffff:127.0.0.1]/cb",
    "http://[::ffff:7f00:1]:1024/cb",
    "http://[::1]/cb",
    "http://[0:0:0:0:0:0:0:1]:1024/cb",
    "http://[::1%25lo]/cb",
    "http://0.0.0.0/cb",
    "http://127.0.0.2/cb",
    "https://127.0.0.1:1024/cb",
    "HTTP://127.0.0.1:1024/cb",
    "http://127.0.0.1:1024@evil.test/cb",
    "http://127.0.0.1:80:80/cb",
    "http://127.0.0.1:1024\\@evil.test/cb",
    "http://127.0.0.1:1024/cb#",
    "http://127.0.0.1:1024/cb?x=1",
    "http://127.0.0.1:1024/cb\n",
    "http://127.0.0.1:１０２４/cb",
)
ODD_PORTS = (
    "",
    "0",
    "00080",
    "65536",
    "99999999999",
    "abc",
    "-1",
    "+80",
    " 80",
    "8_0",
    "80 ",
    "²",
)
