"""Notes Printer: an app that somebody else could have written, with the standard library alone."""
