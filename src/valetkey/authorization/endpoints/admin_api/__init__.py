"""The admin API: everything that the console does, for programs, out of one table of operations."""
