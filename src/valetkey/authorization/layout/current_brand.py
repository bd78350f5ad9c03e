"""The current brand: the settings, overridden by changes in the console."""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping

from valetkey.authorization.layout.assets import Asset, assets
from valetkey.authorization.layout.brand import Brand
from valetkey.authorization.storage.transaction import Store
from valetkey.config.sections.portal import BrandField
from valetkey.kernel.replace import replace

_LOOK_EVERY = 1.0
"""Seconds between checks for a change by another process; a check costs microseconds."""

_REMEMBERED = 100
"""Maximum number of files of earlier themes that are kept, because open pages request them."""


class CurrentBrand:
    """The brand of all pages, kept in memory and reloaded after a change, never per page.

    A change takes effect within two seconds in every process, and in the process that made it when
    it calls `refresh`.
    """

    def __init__(self, base: Brand) -> None:
        """Start with the brand of the settings."""
        self._base = base
        self._changed = -1
        self._files: OrderedDict[str, Asset] = OrderedDict()
        self.current = base
        self._show(base)

    async def refresh(self, store: Store) -> None:
        """Read the changes, if anything in the register changed."""
        changed = store.engine.changed()
        if changed == self._changed:
            return
        said = await store.read(lambda tx: tx.brand.all())
        self._changed = changed
        brand = self.with_changes(said)
        if brand != self.current:
            self._show(brand)

    async def follow_changes(self, store: Store) -> None:
        """Follow changes by other processes, for as long as the server runs."""
        while True:
            await self.refresh(store)
            await asyncio.sleep(_LOOK_EVERY)

    def with_changes(self, said: Mapping[BrandField, str]) -> Brand:
        """Return the brand of the settings with these parts changed."""
        base = self._base
        return replace(
            base,
            name=said.get(BrandField.NAME, base.name),
            accent=said.get(BrandField.ACCENT, base.accent),
            logo_url=said.get(BrandField.LOGO_URL, base.logo_url),
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
