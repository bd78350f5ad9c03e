"""The processes behind `valetkey serve`: the supervisor, fork servers and workers."""
