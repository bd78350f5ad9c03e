"""How it stands with a link in a letter."""
