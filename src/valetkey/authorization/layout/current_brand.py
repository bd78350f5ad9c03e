"""The current brand: the settings, overridden by changes in the console."""

from collections import OrderedDict
from collections.abc import Mapping

from valetkey.authorization.layout.assets import Asset, assets
from valetkey.authorization.layout.brand import Brand
from valetkey.authorization.storage.followed import Followed
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.sections.portal import BrandField
from valetkey.kernel.replace import replace

_REMEMBERED = 100
"""Maximum number of files of earlier themes that are kept, because open pages request them."""


class CurrentBrand(Followed[Mapping[BrandField, str]]):
    """The brand of all pages, kept in memory and reloaded after a change, never per page."""

    def __init__(self, base: Brand) -> None:
        """Start with the brand of the settings."""
        self._base = base
        self._files: OrderedDict[str, Asset] = OrderedDict()
        self.current = base
        self._show(base)

    def read(self, tx: Transaction) -> Mapping[BrandField, str]:
        """Return the parts that the console changed."""
        return tx.brand.all()

    def apply(self, stored: Mapping[BrandField, str]) -> None:
        """Show the brand with these parts changed."""
        brand = self.with_changes(stored)
        if brand != self.current:
            self._show(brand)

    def with_changes(self, said: Mapping[BrandField, str]) -> Brand:
        """Return the brand of the settings with these parts changed."""
        base = self._base
        return replace(
            base,
            name=said.get(BrandField.NAME, base.name),
            accent=said.get(BrandField.ACCENT, base.accent),
            logo_url=said.get(BrandField.LOGO_URL, base.logo_url),
            logo_dark_url=said.get(BrandField.LOGO_DARK_URL, base.logo_dark_url),
            terms_url=said.get(BrandField.TERMS_URL, base.terms_url),
            privacy_url=said.get(BrandField.PRIVACY_URL, base.privacy_url),
        )

    def asset(self, path: str) -> Asset | None:
        """Return a file of the current brand, or of an earlier one."""
        return self._files.get(path)

    def _show(self, brand: Brand) -> None:
        self.current = brand
        for asset in assets(brand):
            self._files[asset.path] = asset
            self._files.move_to_end(asset.path)
        while len(self._files) > _REMEMBERED:
            self._files.popitem(last=False)
