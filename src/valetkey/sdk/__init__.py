"""Protect your own API: it imports the kernel and nothing else of ours."""
