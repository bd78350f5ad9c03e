"""What the admin API takes and gives, type by type: the schemas of its document."""
