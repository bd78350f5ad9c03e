"""The admin API: the functions of the console for programs, from one table of operations."""
