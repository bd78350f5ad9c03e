"""Upstream sign-in: authenticate users at other servers."""
