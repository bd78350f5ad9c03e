"""The event log: search, follow and export it."""
