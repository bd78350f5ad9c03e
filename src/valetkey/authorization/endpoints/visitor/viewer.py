"""For whom a page is made, as far as a request tells."""

from valetkey.authorization.model.account.user import User
from valetkey.authorization.pages.looks.viewer import Viewer
from valetkey.web.exchange import Request


def viewer_of(request: Request, user: User | None = None) -> Viewer:
    """Whoever looks; `user` is who is signed in, where the page is theirs."""
    return Viewer(administers=user is not None and user.role is not None)
