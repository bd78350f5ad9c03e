"""The settings in effect: those of the file, with the values that administrators stored."""

import asyncio
from collections.abc import Callable

from valetkey.authorization.app.foundation import Foundation, build_foundation
from valetkey.config.overrides import Merged, merge
from valetkey.kernel.replace import replace
from valetkey.web import log

_LOOK_EVERY = 1.0
"""Seconds between checks for a change by another process; a check costs microseconds."""

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


async def follow_settings(foundation: Foundation, reload: Callable[[], None], number: int) -> None:
    """Request a reload when stored values change what is in effect, as worker `number`."""
    clock = asyncio.get_running_loop()
    seen, due = -1, None
    while True:
        await asyncio.sleep(_LOOK_EVERY)
        changed = foundation.store.engine.changed()
        if changed != seen:
            merged = await _merged(foundation)
            seen = changed
            if merged.settings == foundation.settings:
                due = None
            elif due is None:
                due = clock.time() + _TURN * number
        if due is not None and clock.time() >= due:
            log.info("settings.changed")
            reload()
            due = clock.time() + _AGAIN


async def _merged(foundation: Foundation) -> Merged:
    stored = await foundation.store.read(lambda tx: tx.stored_settings.all())
    return merge(foundation.base, stored, foundation.check)
