"""A stream of security events from its creation to its end."""

from tests.support.harness import Harness
from valetkey.authorization.signals.operations import (
    CHANGE_STREAM,
    CREATE_STREAM,
    DELETE_STREAM,
    PAUSE_STREAM,
    VERIFY_STREAM,
    SignalStreamChange,
    SignalStreamShown,
    SignalStreamWanted,
)


async def signal_streams(it: Harness, client_id: str, secrets: set[str]) -> None:
    """Each operation once; adds the secret to `secrets`."""
    secret = "Bearer of-the-receiver-of-signals"
    secrets.add(secret)
    stream = SignalStreamWanted(
        client_id, "https://receiver.example/events", authorization_header=secret
    )
    made = await it.perform(CREATE_STREAM, {}, stream)
    assert isinstance(made, SignalStreamShown)
    one = {"stream_id": made.stream_id}
    await it.perform(CHANGE_STREAM, one, SignalStreamChange(description="devices"))
    await it.perform(VERIFY_STREAM, one)
    await it.perform(PAUSE_STREAM, one)
    await it.perform(DELETE_STREAM, one)
