"""What people with a role see: people, apps, keys, events, settings."""
