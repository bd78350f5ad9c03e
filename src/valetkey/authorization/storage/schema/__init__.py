"""The schema of the authorization server: files here, and in a folder `schema` of each feature."""

from pathlib import Path

FOLDERS = tuple(sorted(Path(__file__).parent.parent.parent.glob("*/schema")))
