"""`valetkey brand`: name, color, logo and links of the pages, changed without a restart."""

from pathlib import Path

import click
import msgspec

from valetkey.authorization.actions.admin.server import brand_of
from valetkey.authorization.operations.server import CHANGE_BRAND, READ_BRAND
from valetkey.authorization.operations.server_records import BrandChange
from valetkey.cli import options, say
from valetkey.cli.operations.inputs import Input
from valetkey.cli.operations.perform import flat, perform
from valetkey.cli.register.store import OpenedStore, with_store
from valetkey.config.sections.portal import BrandField

_INPUT = Input(BrandChange)


@click.command()
@click.option("--reset", is_flag=True, help="Reset everything else to the configured values.")
@options.config_file
@options.as_json
def command(reset: bool, config: Path | None, as_json: bool, **given: object) -> None:
    """Show the name and appearance of the pages, or change them.

    A change overrides the configuration file; running servers apply it within seconds.

    Example: valetkey brand --name "Acme" --accent "#0a7d4f"
    """
    settings = options.settings_of(config)
    change: BrandChange = _INPUT.value(given)
    if reset:
        rest = {each.value: None for each in BrandField}
        change = msgspec.convert({**rest, **flat(change)}, BrandChange)

    async def show_or_change(opened: OpenedStore) -> dict[str, object]:
        if change == BrandChange():
            return flat(await perform(opened, READ_BRAND))
        return flat(await perform(opened, CHANGE_BRAND, body=change, named=_INPUT.named))

    shown, base = with_store(settings, show_or_change), brand_of(settings.brand)
    if as_json:
        say.as_json(shown)
        return
    for field in BrandField:
        value = shown[field.value]
        origin = "" if value == base[field] else "  (changed; the settings say otherwise)"
        say.line(f"{field.value:<12} {value or '-'}{origin}")


command.params[:0] = _INPUT.parameters()
