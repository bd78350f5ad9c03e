"""The pages on which people with a role look after others and after this server."""
