"""Sign out of this browser, and notify the apps of the session."""
