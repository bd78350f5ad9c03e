"""HTTP connections: connection limits, admission of requests, and their ASGI view."""
