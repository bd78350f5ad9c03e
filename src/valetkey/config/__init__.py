"""The settings of both servers: one TOML file, every setting with default, unit and reason."""
