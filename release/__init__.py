"""Builds a release: `make release VERSION=0.2.0`."""
