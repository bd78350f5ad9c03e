"""How a person signs in, page by page."""
