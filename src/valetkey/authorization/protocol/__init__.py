"""Protocol rules: pure functions from a typed request to a typed decision."""
