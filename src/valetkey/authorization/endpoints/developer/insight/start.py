"""/developer/apps/{id}/start: programs to paste, with the app's own ids in them."""

from dataclasses import dataclass

from valetkey.authorization.deeds.developer.snippets import snippets_of
from valetkey.authorization.endpoints.account.visit import visit
from valetkey.authorization.endpoints.developer.member import head_of, own_app
from valetkey.authorization.model.register.client import GrantTypeName
from valetkey.authorization.pages.developer.trial.start import SnippetText, StartPage
from valetkey.authorization.site.site import AUTHORIZE, Site
from valetkey.web.exchange import Request, Response
from valetkey.web.form import read_query

_TOKEN = "/oauth/token"
_METADATA = "/.well-known/openid-configuration"


@dataclass(frozen=True, slots=True)
class StartEndpoint:
    """The first request of an app."""

    site: Site

    async def get(self, request: Request) -> Response:
        """The program in the language that `in` names, else the first."""
        seen = await visit(self.site, request)
        if isinstance(seen, Response):
            return seen
        app = await own_app(self.site, request, seen)
        issuer, api = self.site.issuer, self.site.policy.audience
        snippets = snippets_of(app.client, issuer, api)
        ids = [each.id for each in snippets]
        wanted = read_query(request.query).get("in") or ""
        page = StartPage(
            head_of(app),
            tuple(SnippetText(e.id, e.language, e.needs, e.code) for e in snippets),
            chosen=wanted if wanted in ids else next(iter(ids), ""),
            addresses=(
                ("Server", issuer),
                ("Authorization endpoint", f"{issuer}{AUTHORIZE}"),
                ("Token endpoint", f"{issuer}{_TOKEN}"),
                ("Metadata", f"{issuer}{_METADATA}"),
                ("API", api),
            ),
            has_secret=not app.client.is_public,
            asks_people=app.client.may_use(GrantTypeName.AUTHORIZATION_CODE),
        )
        return self.site.page(request, page, user=seen.signed_in.user, headers=seen.headers)
