"""`valetkey brand`: name, colour, logo and links of the pages, while the server runs."""

from collections.abc import Mapping
from pathlib import Path

import click

from valetkey.authorization.actions.admin.brand import brand_now, brand_of, change_brand
from valetkey.authorization.model.server.brand import BrandField
from valetkey.cli import options, say
from valetkey.cli.register.store import Opened, with_store
from valetkey.kernel.refusal import Mistake

Said = Mapping[BrandField, str]


@click.command()
@click.option("--name", help="The name of the service.")
@click.option("--accent", help='The colour of buttons and links, such as "#2456d6".')
@click.option("--logo-url", help='An image, by its path on this server; "" for none.')
@click.option("--terms-url", help='The terms of service; "" for none.')
@click.option("--privacy-url", help='The privacy statement; "" for none.')
@click.option("--reset", is_flag=True, help="Have the rest as the settings say.")
@options.config_file
@options.as_json
def command(
    name: str | None,
    accent: str | None,
    logo_url: str | None,
    terms_url: str | None,
    privacy_url: str | None,
    reset: bool,
    config: Path | None,
    as_json: bool,
) -> None:
    """Show what the pages are called and look like, or change it.

    A change goes before the settings, and running servers follow it within seconds.

    Example: valetkey brand --name "Acme" --accent "#0a7d4f"
    """
    settings = options.settings_of(config)
    options_ = (name, accent, logo_url, terms_url, privacy_url)
    said = dict(zip(BrandField, options_, strict=True))
    changes = {field: value for field, value in said.items() if reset or value is not None}

    async def work(opened: Opened) -> tuple[Said, Said]:
        actor, base = opened.operator, settings.brand
        if not changes:
            shown = await opened.store.read(lambda tx: brand_now(tx, base))
            return shown, brand_of(base)
        after = await opened.store.write(
            lambda tx: change_brand(tx, actor, base, changes, opened.now)
        )
        if isinstance(after, tuple):
            wrong = "; ".join(f"--{each.field.replace('_', '-')}: {each.detail}" for each in after)
            raise Mistake(f"write {wrong}")
        return after, brand_of(base)

    shown, base = with_store(settings, work)
    if as_json:
        say.as_json({field.value: value for field, value in shown.items()})
        return
    for field, value in shown.items():
        origin = "" if value == base[field] else "  (changed; the settings say otherwise)"
        say.line(f"{field.value:<12} {value or '-'}{origin}")
