"""Monitoring of an app: failed requests, usage, users and health."""
