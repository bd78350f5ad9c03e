"""The chapters of the walk; each is a function that tells one."""
