"""Parsing of API requests beyond the path: headers, query and body."""
