"""The steps of `valetkey apply`: read a file of users and clients, plan, apply."""
