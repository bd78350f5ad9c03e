"""Webhooks: the same pages in the console and, for each app, in the portal."""
