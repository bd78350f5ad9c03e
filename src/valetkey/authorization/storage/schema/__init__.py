"""The authorization server's tables: numbered files, applied once, in order."""
