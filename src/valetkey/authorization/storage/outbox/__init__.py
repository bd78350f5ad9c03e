"""Queues of messages that are delivered at least once."""
