"""How fast it is: real servers, real HTTP, every answer checked. Run `make bench`."""
