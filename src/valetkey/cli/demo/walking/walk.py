"""Run every chapter over real HTTP, check every response, and print a summary."""

import time
from collections.abc import Callable

from valetkey.cli import say
from valetkey.cli.demo.running import Running, Stopped, seed
from valetkey.cli.demo.site import NAME
from valetkey.cli.demo.walking import grants, limits
from valetkey.cli.demo.walking.stage import Browser, Transcript, WalkContext
from valetkey.cli.demo.wire import ShownExchange, TracedHttp
from valetkey.cli.say import Exit

CHAPTERS: tuple[Callable[[WalkContext], None], ...] = (
    grants.own_token,
    grants.authorize_app,
    grants.public_client,
    limits.allow_partly,
    limits.deny_consent,
    grants.implicit,
    grants.password,
    limits.expired,
    limits.refreshed,
    limits.replayed,
    grants.client_registration,
    limits.revoked,
    limits.resource_indicators,
    limits.role_at_api,
    grants.openid_connect,
    grants.example_app,
)
"""All chapters, ordered because later ones use the results of earlier ones."""


def walk(running: Running, *, as_json: bool, verbose: bool = False) -> int:
    """Run the chapters against this demo; `verbose` prints every exchange.

    Returns 0 if every response was right, else 1. Raises Stopped.
    """
    began = time.monotonic()

    def show_exchange(exchange: ShownExchange) -> None:
        if running.stopping.is_set():
            raise Stopped
        story.add_exchange(exchange)

    def unanswered() -> None:
        if running.stopping.is_set():
            raise Stopped

    story, wire = Transcript(unanswered, quiet=as_json, verbose=verbose), TracedHttp(show_exchange)
    ada = Browser(running.site.auth_url, wire)
    stage = WalkContext(running.site, story, wire, ada, seed(running.site).count)
    if not as_json:
        _begin(stage, verbose=verbose)
    for chapter in CHAPTERS:
        chapter(stage)
    seconds = time.monotonic() - began
    if as_json:
        say.as_json({**story.as_json(), "seconds": round(seconds, 1)})
    else:
        _end(story, wire.count, seconds)
    return Exit.FAILED if story.wrongs else Exit.OK


def _begin(stage: WalkContext, *, verbose: bool) -> None:
    site = stage.site
    say.line(say.strong("Valetkey: a demo of every flow, over real HTTP"))
    say.line()
    say.line("Two servers, two APIs, five grant types, and revocation.")
    if verbose:
        say.line("Secrets are shortened. S12 and the like name rows of the specification.")
    else:
        say.line(f"Every response is checked. To see them: {say.program()} demo --walk --verbose")
    say.line()
    say.fields(
        [
            ("authorization server", site.auth_url),
            ("resource server", site.api_url),
            ("second API", f"{site.calendar}   Calendar"),
            ("example app", f"{site.app_url}   Notes Printer"),
            ("user", f"{NAME}, who has {stage.notes} notes"),
        ]
    )
    if not verbose:
        say.line()


def _end(story: Transcript, exchanges: int, seconds: float) -> None:
    say.line()
    if not story.wrongs:
        right = say.coloured("All responses were correct:", "green")
        say.line(
            f"{right} {len(story.chapters)} chapters, {exchanges} exchanges, "
            f"{story.checked} checks, {seconds:.1f} seconds."
        )
        return
    count = len(story.wrongs)
    answers = "One answer was wrong:" if count == 1 else f"{count} answers were wrong:"
    say.line(say.coloured(answers, "red"))
    for wrong in story.wrongs:
        say.line(f"  chapter {wrong.chapter}, exchange {wrong.exchange}: {wrong}")
