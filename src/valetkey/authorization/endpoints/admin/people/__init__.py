"""People in administration: the overview, the list, one of them, roles, and the first owner."""
