"""Checks of an installation: one table for the console's overview and for `valetkey doctor`."""
