"""Alerts: email about problems that checks find, and about events that should hardly happen."""
