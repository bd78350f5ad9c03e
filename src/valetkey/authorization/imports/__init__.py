"""Imports of users from files, and converters of the exports of other servers."""
