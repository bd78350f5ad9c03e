"""Shared Signals: security events about users, sent to receivers as Security Event Tokens."""
