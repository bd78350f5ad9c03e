"""Connected apps: the list, one app, and the end of their access."""
