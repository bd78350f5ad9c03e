"""The rules: a typed request in, a typed decision out; pure."""
