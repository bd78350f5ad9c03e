"""Valetkey: some access, to some data, that everybody can see and end."""
