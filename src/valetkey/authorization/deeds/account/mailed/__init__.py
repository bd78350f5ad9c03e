"""What is begun on a page and finished by a link in a letter."""
