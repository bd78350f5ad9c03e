"""Stores of access tokens by reference and of revocations."""
