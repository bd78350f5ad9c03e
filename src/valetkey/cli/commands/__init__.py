"""One command a file; `valetkey.cli.main` lists them and loads the one that is asked for."""
