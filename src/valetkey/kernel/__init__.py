"""Code shared by both servers: no I/O except its own key files, no web framework."""
