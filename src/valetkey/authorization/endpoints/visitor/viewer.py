"""For whom a page is made, as far as a request tells."""

from collections.abc import Sequence

from valetkey.authorization.endpoints.visitor.configuration import UNNAMED, Configuration
from valetkey.authorization.endpoints.visitor.language import here, language_of
from valetkey.authorization.model.account.user import User
from valetkey.authorization.pages.looks.language import LANGUAGES, Language
from valetkey.authorization.pages.looks.viewer import Viewer
from valetkey.config.sections.portal import PortalSettings, Registrants
from valetkey.web.exchange import Pairs, Request


def viewer_of(
    request: Request,
    user: User | None = None,
    portal: PortalSettings | None = None,
    *,
    languages: Sequence[Language] = LANGUAGES,
    configuration: Configuration = UNNAMED,
) -> Viewer:
    """Whoever looks, in one of `languages`; `user` is who is signed in where a page is theirs."""
    administers = user is not None and user.role is not None
    return Viewer(
        language=language_of(request, user, languages),
        languages=tuple(languages),
        here=here(request),
        develops=user is not None and portal is not None and develops(user, portal),
        administers=administers,
        zone="" if user is None else user.claims.zoneinfo,
        configuration=configuration.shown(administers=administers),
    )


def spoken(viewer: Viewer) -> Pairs:
    """The header that says in which language the answer is."""
    return (("content-language", viewer.language.tag),)


def develops(user: User, portal: PortalSettings) -> bool:
    """Whether the developer portal has something for this person: an app, or the way to one."""
    if portal.who is Registrants.EVERYONE:
        return True
    if portal.who is Registrants.VERIFIED and user.email_verified_at is not None:
        return True
    return user.develops
