"""Valetkey: scoped access to data, which users, developers and operators can see and revoke."""
