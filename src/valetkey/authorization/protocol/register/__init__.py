"""Rules of client registration."""
