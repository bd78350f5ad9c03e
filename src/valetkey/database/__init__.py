"""Transactions as plain functions, on any engine."""
