"""How a client gets tokens: one grant type per file."""
