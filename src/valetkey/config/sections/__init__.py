"""Sections of the settings: one file for each, with the reason for every setting in it."""
