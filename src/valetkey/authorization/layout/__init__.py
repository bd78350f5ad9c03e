"""What all pages and emails share: base templates, brand, theme, styles, languages, rendering."""
