"""One connection: who is let in, how a request is admitted, what ASGI sees of it."""
