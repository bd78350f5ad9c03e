"""Pages about errors: the problem at hand, and what each code means."""
