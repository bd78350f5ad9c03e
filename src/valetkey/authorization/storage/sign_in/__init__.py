"""Stores of sign-in: sessions, credentials, devices, throttles."""
