"""Endpoints at which applications register themselves."""
