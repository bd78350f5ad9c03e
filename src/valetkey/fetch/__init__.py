"""What this server asks of others, through one guarded door."""
