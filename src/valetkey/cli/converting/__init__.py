"""Converters of the exports of other servers."""
