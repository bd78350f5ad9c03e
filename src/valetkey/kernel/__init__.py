"""The words both servers speak; no I/O but its own key files, no framework."""
