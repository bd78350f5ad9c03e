"""Experiments that compare what clients were told with what the servers do after a fault."""
