"""Stores of clients and everything that belongs to them."""
