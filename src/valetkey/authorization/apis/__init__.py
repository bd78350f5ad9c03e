"""APIs beyond the first: declared, changed, disabled, and their credentials."""
