"""`valetkey brand`: name, color, logo and links of the pages, changed without a restart."""

from pathlib import Path

import click
import msgspec

from valetkey.authorization.actions.admin.server import brand_of
from valetkey.authorization.operations.operation import UploadedFile
from valetkey.authorization.operations.server import (
    CHANGE_BRAND,
    LARGEST_LOGO,
    READ_BRAND,
    UPLOAD_LOGO,
)
from valetkey.authorization.operations.server_records import BrandChange
from valetkey.cli import options, say
from valetkey.cli.operations.inputs import Input
from valetkey.cli.operations.perform import flat, perform
from valetkey.cli.register.store import OpenedStore, with_store
from valetkey.config.sections.people import BrandField
from valetkey.kernel.refusal import OperatorError

_INPUT = Input(BrandChange)
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.option("--logo", type=_FILE, help="PNG, JPEG, WebP or GIF file with the logo.")
@click.option("--logo-dark", type=_FILE, help="The same for dark mode.")
@click.option("--reset", is_flag=True, help="Reset everything else to the configured values.")
@options.config_file
@options.as_json
def command(
    logo: Path | None,
    logo_dark: Path | None,
    reset: bool,
    config: Path | None,
    as_json: bool,
    **parameters: object,
) -> None:
    """Show the name and appearance of the pages, or change them.

    A change overrides the configuration file; running servers apply it within seconds. Logos are
    stored in the database, as copies that fit into 480 x 96 pixels.

    Example: valetkey brand --name "Acme" --accent "#0a7d4f"
    """
    settings = options.settings_of(config)
    change: BrandChange = _INPUT.value(parameters)
    if reset:
        rest = {brand_field.value: None for brand_field in BrandField}
        change = msgspec.convert({**rest, **flat(change)}, BrandChange)

    files = {mode: file for mode, file in (("light", logo), ("dark", logo_dark)) if file}
    images = {mode: UploadedFile("", _content(file)) for mode, file in files.items()}

    async def show_or_change(opened: OpenedStore) -> dict[str, object]:
        for mode, image in images.items():
            await perform(opened, UPLOAD_LOGO, {"mode": mode}, image)
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
        say.line(f"{field.value:<13} {value or '-'}{origin}")


def _content(file: Path) -> bytes:
    try:
        with file.open("rb") as opened:
            return opened.read(LARGEST_LOGO + 1)
    except OSError as reason:
        raise OperatorError(f"{file} cannot be read: {reason.strerror}") from None


command.params[:0] = _INPUT.parameters()
