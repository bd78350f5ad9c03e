"""Sign out of this browser, and tell the apps of the session."""
