"""One command per file; `valetkey.cli.main` lists them and imports the one that is run."""
