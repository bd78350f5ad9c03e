"""What developers do with their apps: register, change, share, delete."""
