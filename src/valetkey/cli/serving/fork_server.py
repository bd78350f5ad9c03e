"""The process from which workers are forked: it has the program loaded and does nothing else.

A worker started as a separate program would spend most of its start loading modules; a fork takes a
few milliseconds and shares their memory. No configuration, key or connection is opened here and no
thread runs, so that a fork inherits nothing half finished.
"""

import gc
import os
import socket

ORDER = b"f"
"""The message that requests a fork; the worker's end of its channel is sent with it."""


def await_fork(control: int) -> int | None:
    """Fork for each order on channel `control`; return in each fork with its own channel.

    Return None when the supervisor closes its end of the channel. The worker is forked twice, so
    that it is orphaned and adopted by the supervisor, which collects it (see `Plan.take_over`).
    """
    orders = socket.socket(fileno=control)
    # Modules loaded by now stay and are shared: the garbage collector need not examine them.
    gc.collect()
    gc.freeze()
    while True:
        order, channels, _, _ = socket.recv_fds(orders, 1, 1)
        if not order:
            return None
        between = os.fork()
        if between == 0:
            if os.fork():
                os._exit(0)
            orders.close()
            return channels[0]
        for channel in channels:
            os.close(channel)
        os.waitpid(between, 0)
