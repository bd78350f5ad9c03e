"""Protocol endpoints over HTTP, one per file."""
