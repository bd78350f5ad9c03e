"""Notes Printer: an example of a third-party app, written with the standard library alone."""
