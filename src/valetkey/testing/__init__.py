"""For extensions and their tests: storage conformance, servers in memory, a test browser."""
