"""The authorization server's migrations: numbered files, applied once, in order."""
