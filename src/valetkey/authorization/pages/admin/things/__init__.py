"""Pages about apps, keys, events, settings and programs, for those who run this server."""
