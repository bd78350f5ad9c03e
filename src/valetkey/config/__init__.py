"""One TOML file below both servers: every setting with its default, its unit and its reason."""
