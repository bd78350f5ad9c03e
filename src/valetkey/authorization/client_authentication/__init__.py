"""How a client proves who it is: one method per file."""
