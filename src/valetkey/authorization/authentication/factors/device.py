"""Remembered devices: browsers that skip the second factor for a while.

The cookie changes with every use. If an old cookie comes back, it was copied: the device is then
forgotten, and every session it signed in ends. Only a cookie that this server issued counts as an
old one: device ids appear in events and exports, and prove nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass

from msgspec import Struct

from valetkey.authorization.authentication.session import end_session, end_sessions
from valetkey.authorization.model.account.factors import RememberedDevice
from valetkey.authorization.model.account.user import Uid
from valetkey.authorization.model.event.event import SYSTEM
from valetkey.authorization.model.event.sessions import (
    DeviceForgotten,
    DeviceRemembered,
    DeviceStolen,
)
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant, Lifetime, is_live, later, seconds
from valetkey.kernel.secret import (
    Fingerprint,
    FingerprintKey,
    Prefix,
    Secret,
    fresh_id,
    is_tagged,
    same,
    tagged_secret,
    well_formed,
)

PURPOSE = "remembered device"
"""The purpose under which the cookies are fingerprinted."""

_GRACE = seconds(60)
"""How long the previous cookie is accepted: two tabs may sign in at once."""

_LONGEST_ID = 40
_MOST_NAMED = 10
"""Sessions of one device that are ended one by one; beyond it, all of the user's end."""

MOST = 50
"""Maximum number of remembered devices of one user; a new one replaces the least recently used."""


@dataclass(frozen=True, slots=True, repr=False)
class FreshDevice:
    """An id and the random half of a secret, drawn before the transaction that may need them."""

    id: str
    drawn: bytes
    key: FingerprintKey

    @staticmethod
    def draw(random: Callable[[int], bytes], key: FingerprintKey) -> "FreshDevice":
        """Generate the values for one sign-in."""
        return FreshDevice(fresh_id("rd", random), random(16), key)

    def secret(self, device_id: str) -> Secret:
        """Return the device's next secret, with a MAC over its id; equal at every call."""
        return tagged_secret(Prefix.DEVICE, self.drawn, self.key, _tag_purpose(device_id))

    def fingerprint(self, device_id: str) -> Fingerprint:
        """Return the stored fingerprint of that secret."""
        return self.key.of(PURPOSE, self.secret(device_id).reveal())

    def cookie(self, device_id: str) -> str:
        """Return the browser's cookie."""
        return f"{device_id}.{self.secret(device_id).reveal()}"


class RecognisedDevice(Struct, frozen=True):
    """A device whose user skips the second factor, and its next cookie ("" for no change)."""

    device_id: str
    cookie: str
    expires_at: Instant


def remember_device(
    tx: Transaction,
    fresh: FreshDevice,
    uid: Uid,
    user_agent: str,
    now: Instant,
    lifetime: Lifetime,
) -> RecognisedDevice:
    """Skip the second factor in this browser for `lifetime`."""
    expires_at = later(now, lifetime)
    print_ = fresh.fingerprint(fresh.id)
    tx.devices.remember(
        RememberedDevice(fresh.id, uid, print_, "", now, user_agent, now, expires_at)
    )
    tx.events.add(DeviceRemembered(uid, fresh.id), now)
    for device in tx.devices.of(uid, now)[MOST:]:
        forget_device(tx, uid, device.id, now)
    return RecognisedDevice(fresh.id, fresh.cookie(fresh.id), expires_at)


def recognise(
    tx: Transaction, cookie: str, fresh: FreshDevice, uid: Uid, now: Instant
) -> RecognisedDevice | None:
    """Return the device of this cookie if it is remembered for this user; else None."""
    device_id, _, secret = cookie.partition(".")
    if not 0 < len(device_id) <= _LONGEST_ID or not well_formed(Prefix.DEVICE, secret):
        return None
    device = tx.devices.find(device_id)
    if (
        device is None
        or device.uid != uid
        or not is_live(device.created_at, device.expires_at, now)
    ):
        return None
    shown = fresh.key.of(PURPOSE, secret)
    if tx.devices.exchange(device.id, shown, fresh.fingerprint(device.id), now):
        return RecognisedDevice(device.id, fresh.cookie(device.id), device.expires_at)
    # Another tab may have exchanged it concurrently, even since it was read above.
    present = tx.devices.find(device.id)
    if present is not None and _is_just_past(present, shown, now):
        return RecognisedDevice(device.id, "", device.expires_at)
    # Cookies from before the MAC are recognised only by the stored fingerprints.
    was_previous = present is not None and same(present.previous, shown)
    if was_previous or is_tagged(Prefix.DEVICE, secret, fresh.key, _tag_purpose(device.id)):
        _end_all_of_it(tx, device, now)
    return None


def forget_device(tx: Transaction, uid: Uid, device_id: str, now: Instant) -> bool:
    """Forget this device; False if the user has no such device."""
    if not tx.devices.delete(uid, device_id):
        return False
    tx.events.add(DeviceForgotten(uid, device_id), now)
    return True


def forget_devices(tx: Transaction, uid: Uid, now: Instant) -> None:
    """Forget all of the user's devices."""
    for device in tx.devices.of(uid, now):
        forget_device(tx, uid, device.id, now)
    tx.devices.delete_all(uid)


def _tag_purpose(device_id: str) -> str:
    return f"{PURPOSE}.tag:{device_id}"


def _is_just_past(device: RememberedDevice, shown: Fingerprint, now: Instant) -> bool:
    return same(device.previous, shown) and later(device.changed_at, _GRACE) > now


def _end_all_of_it(tx: Transaction, device: RememberedDevice, now: Instant) -> None:
    if not tx.devices.delete(device.uid, device.id):
        return
    tx.events.add(DeviceStolen(device.uid, device.id), now)
    tx = tx.acting(SYSTEM)
    sessions = tx.sessions.live_of_device(device.uid, device.id, now, _MOST_NAMED + 1)
    if len(sessions) > _MOST_NAMED:
        end_sessions(tx, device.uid, now, "device_reused")
        return
    for session in sessions:
        end_session(tx, session, now, "device_reused")
