"""An app's secrets: those there are, a new one, the end of one."""
