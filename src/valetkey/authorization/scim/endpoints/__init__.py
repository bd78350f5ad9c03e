"""SCIM 2.0: directories provision users and groups (RFC 7643, RFC 7644)."""
