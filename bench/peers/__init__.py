"""Side by side with the servers that others wrote: same machine, same load, same work."""
