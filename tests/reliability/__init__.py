"""Experiments on running servers: faults and changes under load, and what must hold meanwhile."""
