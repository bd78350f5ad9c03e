"""Where objects are kept: in the database here, or at the authorization server."""
