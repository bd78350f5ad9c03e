"""The process from which workers are forked: it has loaded the program, and does nothing else.

A worker that starts as a program of its own spends most of its time loading modules; a fork is
there in a few milliseconds and shares their memory. No configuration, key or connection is opened
here, and no thread runs, so that a fork finds nothing half done.
"""

import gc
import os
import socket

ORDER = b"f"
"""What asks for a fork; the worker's end of its channel comes with it."""


def await_fork(control: int) -> int | None:
    """Fork for each order on channel `control`; return in each fork with its own channel.

    Return None when the supervisor's end of the channel is closed. A fork is nobody's child but
    the supervisor's: that collects the processes that lost their parent (see `Plan.take_over`).
    """
    orders = socket.socket(fileno=control)
    # What is loaded by now stays, and is shared: nobody has to look through it.
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
