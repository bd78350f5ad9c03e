"""Who sends letters, where the settings say that they are sent."""

from collections.abc import Callable, Coroutine

from valetkey.authorization.deeds.foundation import Foundation
from valetkey.authorization.endpoints.visitor.site import Site
from valetkey.authorization.upkeep.post import PostOffice
from valetkey.authorization.upkeep.smtp import MailServer


def make_post(
    foundation: Foundation, site: Site
) -> tuple[Callable[[], Coroutine[object, object, None]], ...]:
    """What runs beside the requests to send letters; nothing where none are sent."""
    mailroom = foundation.mailroom
    if not mailroom.is_on or mailroom.settings.is_mailbox:
        return ()
    send = MailServer.of(foundation.settings).send
    office = PostOffice(foundation.store, mailroom, send, lambda: site.brand, foundation.runtime)
    return (office.deliver,)
