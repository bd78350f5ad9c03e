"""A user's browser: walks the real pages, and every step of it is seen."""

from urllib.parse import urljoin, urlsplit

from valetkey.cli.demo.site import PASSWORD, USERNAME
from valetkey.cli.demo.wire import Exchange, TracedHttp, Unanswered
from valetkey.testing.person import Page, Person

_FORM = "application/x-www-form-urlencoded"


class Browser(Person):
    """A user whose exchanges are shown: the app's request in full, the pages on one line."""

    def __init__(
        self, home: str, wire: TracedHttp, username: str = USERNAME, password: str = PASSWORD
    ) -> None:
        """A browser with an empty cookie jar, for the server at `home`; Ada's by default."""
        super().__init__(home)
        self._wire = wire
        self._account = username, password

    def ask(self, url: str, *, allows: tuple[str, ...] | None = None, denies: bool = False) -> Page:
        """Follow an app's authorization request to its end, signing in when required.

        On the consent page: allow what is checked, or `allows` alone, or deny everything.
        """
        page = self.open(url)
        if any(button.id == "sign-in" for button in page.buttons):
            page = self.sign_in(page, *self._account)
        if any(button.id == "allow" for button in page.buttons):
            page = self.deny(page) if denies else self.allow(page, only=allows)
        return page

    def _ask(self, method: str, url: str, body: str | None, headers: dict[str, str]) -> Page:
        try:
            page = super()._ask(method, url, body, headers)
        except OSError as error:
            raise Unanswered(f"no answer to {method} {url.partition('?')[0]}") from error
        exchange = Exchange(
            number=0,
            method=method,
            url=url,
            sent_headers=() if body is None else (("Content-Type", _FORM),),
            sent=body or "",
            status=page.status,
            headers=page.headers,
            body=page.body,
            brief=self._is_between_pages(url, page),
        )
        self._wire.show(exchange)
        return page

    def _is_between_pages(self, url: str, page: Page) -> bool:
        """Whether this is between the person and the server, and no business of the app."""
        leads_to = urljoin(url, page.headers.get("Location", ""))
        begins = urlsplit(url).path.endswith("/authorize") and "interaction=" not in url
        return not begins and urlsplit(leads_to).netloc == self._home.netloc
