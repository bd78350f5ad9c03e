"""HTTP in, HTTP out: one endpoint per file."""
