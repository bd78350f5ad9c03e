"""The answer to an authorization request: the address a person's browser is sent back to.

RFC 6749 sections 4.1.2 and 4.2.2, with the issuer of RFC 9207 in every answer.
"""

from valetkey.authorization.protocol.authorization_request import ReturnAddress
from valetkey.kernel.refusal import Refusal
from valetkey.kernel.url import append_query, with_fragment


def success_url(returns: ReturnAddress, issuer: str, pairs: tuple[tuple[str, str], ...]) -> str:
    """The redirect URI with `pairs`, the client's state and the issuer."""
    state = () if returns.state is None else (("state", returns.state),)
    return _put(returns, (*pairs, *state, ("iss", issuer)))


def error_url(returns: ReturnAddress, issuer: str, refusal: Refusal, reference: str) -> str:
    """The redirect URI with the refusal: its code, its words, the page that explains it.

    `reference` lets the app's owner find out what exactly was wrong.
    """
    pairs = (
        ("error", refusal.code.value),
        ("error_description", refusal.description),
        ("error_uri", f"{issuer}/errors/{refusal.code.value}"),
        ("reference", reference),
    )
    return success_url(returns, issuer, pairs)


def _put(returns: ReturnAddress, pairs: tuple[tuple[str, str], ...]) -> str:
    if returns.in_fragment:
        return with_fragment(returns.redirect_uri, pairs)
    # A browser gives the fragment of the address it comes from to a redirect that has none, so
    # whoever opened our page with one could plant it at the client. An empty fragment prevents
    # that; `#_` would too, but apps that look at their fragment would see it.
    return append_query(returns.redirect_uri, pairs) + "#"
