"""Shared by all pages and emails: base templates, brand, theme, styles, languages, rendering."""
