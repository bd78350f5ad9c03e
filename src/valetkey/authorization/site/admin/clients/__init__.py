"""The registered apps (clients): list, register, inspect and operate on them."""
