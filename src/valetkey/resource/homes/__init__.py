"""Where objects are stored: in this server's database, or at the authorization server."""
