"""Requests that failed, and what a developer can do about each."""
