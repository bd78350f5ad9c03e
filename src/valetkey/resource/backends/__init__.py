"""Storage of objects: in this server's database, or at the authorization server."""
