"""A pending request: the sealed interaction in the address, opened and judged again."""

from collections.abc import Mapping
from dataclasses import dataclass

from valetkey.authorization.deeds.developer.trial import catcher_of
from valetkey.authorization.model.register.client import Client
from valetkey.authorization.protocol.authorization_request import (
    AuthorizationRequest,
    parse,
    plausible_client_id,
    require_client,
)
from valetkey.authorization.protocol.authorization_response import ReturnAddress, prove
from valetkey.authorization.protocol.interaction import (
    Interaction,
    Known,
    Person,
    Step,
    is_bound_to,
    next_step,
    what_is_known,
)
from valetkey.authorization.sign_in.session import Present, SignedIn
from valetkey.authorization.site.site import AUTHORIZE, Site
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.web.exchange import Request, Response
from valetkey.web.form import read_query


@dataclass(frozen=True, slots=True)
class Pending:
    """A request on its way: what was asked, by whom, of whom, and how far it is.

    `meant` are the subjects that the request names; whoever answers must be all of them. `also` is
    where the answer may go beside the client's own addresses, "" for nowhere.
    """

    interaction: Interaction
    asked: AuthorizationRequest
    client: Client
    meant: frozenset[str]
    signed_in: SignedIn | None
    known: Known
    step: Step
    also: str = ""


async def find_client(site: Site, client_id: str | None) -> Client:
    """The client that this parameter names; refused if it is unknown or disabled."""
    plausible = plausible_client_id(client_id)
    return require_client(None if plausible is None else await site.directory.find(plausible))


async def find_and_prove(
    site: Site, parameters: Mapping[str, str], also: str = ""
) -> tuple[Client, ReturnAddress]:
    """The client, and where its answer may go; refused like `find_client` and `prove`."""
    client = await find_client(site, parameters.get("client_id"))
    try:
        return client, prove(parameters, client, also)
    except Refused:
        # It may have registered the address a moment ago, with another process.
        client = require_client(await site.directory.find_again(client.id))
        return client, prove(parameters, client, also)


def sealed_in(request: Request) -> str:
    """The sealed interaction in the address of the request, "" for none."""
    return read_query(request.query).get("interaction") or ""


def open_interaction(site: Site, request: Request, sealed: str) -> Interaction:
    """The interaction, if it lives and began in this browser, or in none yet.

    Refused with `invalid_request` when it is over, with `forbidden` in another browser.
    """
    interaction = Interaction.open(sealed, site.keyring.sealer)
    if interaction is None:
        raise _refused("the address is not complete; go back to the app and start again", "sealed")
    if not interaction.is_live(request.at):
        raise _refused("this took too long; go back to the app and start again", "expired")
    cookies = site.cookies
    bound = is_bound_to(interaction, cookies.browser_print(cookies.browser(request)))
    if interaction.browser and not bound:
        raise Refused(
            Refusal(
                ErrorCode.FORBIDDEN,
                "this request began in another browser, or cookies are off; start again here",
                "interaction.browser",
                "the browser in which it began",
                "another browser",
            )
        )
    return interaction


async def open_pending(site: Site, request: Request) -> Pending | Response:
    """The request behind a page of ours; a Response when the client must be told no instead.

    Raises Refused for what only the person may be told.
    """
    interaction = open_interaction(site, request, sealed_in(request))
    if not interaction.browser:
        raise _refused("the address is not complete; go back to the app and start again", "unbound")
    return await judge(site, request, interaction)


async def judge(site: Site, request: Request, interaction: Interaction) -> Pending | Response:
    """The same for an interaction at hand: everything about it is judged anew."""
    also = await _catcher(site, request, interaction.parameters)
    client, returns = await find_and_prove(site, interaction.parameters, also)
    if interaction.browser and interaction.client_generation != client.generation:
        # Another process may have begun this after it enabled the client a moment ago.
        client = require_client(await site.directory.find_again(client.id))
    if interaction.browser and interaction.client_generation != client.generation:
        raise _refused("the app was disabled meanwhile; go back to it and start again", "ended")
    try:
        asked = parse(
            interaction.parameters,
            client,
            returns,
            known=site.scopes,
            resource=site.policy.audience,
        )
        meant = await _meant(site, asked, client, request.at)
    except Refused as refused:
        return site.back(returns, refused.refusal, client, request.at)
    present = await site.present(request, client.id)
    person = None if present is None else person_of(site, present, client, meant)
    signed_in = None if present is None else present.signed_in
    known = what_is_known(interaction, asked, client, person)
    step = next_step(asked, known, request.at)
    return Pending(interaction, asked, client, meant, signed_in, known, step, also)


async def _catcher(site: Site, request: Request, parameters: Mapping[str, str]) -> str:
    """Where a trial of the portal catches its answer, in the session that began it; else ""."""
    trial = catcher_of(parameters, site.issuer, site.keyring.sealer, request.at)
    if trial is None:
        return ""
    signed_in = await site.signed_in(request)
    began_here = signed_in is not None and signed_in.session.id == trial.session_id
    return trial.redirect_uri if began_here else ""


def person_of(site: Site, present: Present, client: Client, meant: frozenset[str]) -> Person:
    """Who is signed in, as the rules see them."""
    session = present.signed_in.session
    is_meant = not meant or meant <= {site.subjects.of(present.signed_in.user, client)}
    return Person(session.id, session.auth_time, present.consent, session.methods, is_meant)


async def _meant(
    site: Site, asked: AuthorizationRequest, client: Client, now: Instant
) -> frozenset[str]:
    named = {asked.claims.subject}
    if asked.id_token_hint:
        named.add((await site.hints.read(asked.id_token_hint, client, now)).subject)
    return frozenset(named - {""})


def address(site: Site, path: str, interaction: Interaction) -> str:
    """The page at `path` for this interaction."""
    return f"{path}?interaction={interaction.seal(site.keyring.sealer, site.random)}"


def decides_again(site: Site, interaction: Interaction) -> str:
    """Where every form of ours leads: the authorization endpoint, which decides what is next."""
    return address(site, AUTHORIZE, interaction)


def _refused(description: str, check: str) -> Refused:
    return Refused(Refusal(ErrorCode.INVALID_REQUEST, description, f"interaction.{check}"))
