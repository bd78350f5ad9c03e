"""The processes behind `valetkey serve`: one that supervises, and those that answer."""
