"""Error pages for refused requests, and explanations of error codes."""
