"""Pages of the console about declared attributes and claims."""

from valetkey.authorization.claims.pages.declarations import declaration_pages
from valetkey.authorization.claims.pages.users import ClaimsPreviewPages, UserAttributesPage
from valetkey.authorization.operations.operation import Services
from valetkey.authorization.site.page import AnyPage


def console_pages(services: Services) -> tuple[AnyPage, ...]:
    """Return all of them."""
    return (
        *UserAttributesPage(services).pages(),
        *ClaimsPreviewPages(services).pages(),
        *declaration_pages(services),
    )
