"""Experiments on a disk, a resource or another server that fails."""
