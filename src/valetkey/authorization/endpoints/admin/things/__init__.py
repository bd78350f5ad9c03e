"""Apps, keys, events, settings and programs in administration."""
