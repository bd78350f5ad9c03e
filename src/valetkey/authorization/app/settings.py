"""The settings in effect: those of the file, with the values that administrators stored."""

import asyncio
from collections.abc import Callable, Mapping

from valetkey.authorization.app.foundation import Foundation, build_foundation
from valetkey.authorization.storage.transaction import Followed, Store, Transaction
from valetkey.config.catalogue import Merged, merge
from valetkey.kernel.replace import replace
from valetkey.web import log

_TURN = 5.0
"""Seconds by which each further worker waits longer: the first one reloads all of them."""

_AGAIN = 60.0
"""Seconds until a reload is requested again, where the one before was refused."""


async def with_stored(foundation: Foundation) -> Foundation:
    """Return the foundation on the settings in effect; the one given is closed if they differ.

    A stored value that cannot be used is logged and ignored.
    """
    try:
        merged = await _merged(foundation)
    except BaseException:
        await foundation.close()
        raise
    for path, reason in merged.ignored.items():
        log.warning("setting.ignored", setting=path, reason=reason)
    if merged.settings == foundation.settings:
        return foundation
    await foundation.close()
    built = build_foundation(merged.settings, foundation.runtime, foundation.scopes, begins=False)
    return replace(built, file_settings=foundation.settings)


class FollowedSettings(Followed[Mapping[str, str]]):
    """Requests a reload when stored values change what is in effect."""

    def __init__(self, foundation: Foundation, reload: Callable[[], None], number: int) -> None:
        """Compare with the settings of `foundation`, as worker `number`."""
        self._foundation = foundation
        self._reload = reload
        self._turn = _TURN * number
        self._timer: asyncio.TimerHandle | None = None

    def read(self, tx: Transaction) -> Mapping[str, str]:
        """Return the stored values."""
        return tx.stored_settings.all()

    def apply(self, stored: Mapping[str, str]) -> None:
        """Request a reload after a while, unless these values are in effect."""
        foundation = self._foundation
        if merge(foundation.base, stored, foundation.check).settings == foundation.settings:
            self._cancel()
        elif self._timer is None:
            self._request_after(self._turn)

    async def follow_changes(self, store: Store) -> None:
        """Follow changes by other processes, for as long as the server runs."""
        try:
            await super().follow_changes(store)
        finally:
            self._cancel()

    def _request_after(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._request)

    def _request(self) -> None:
        self._request_after(_AGAIN)
        log.info("settings.changed")
        self._reload()

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None


async def _merged(foundation: Foundation) -> Merged:
    stored = await foundation.store.read(lambda tx: tx.stored_settings.all())
    return merge(foundation.base, stored, foundation.check)
