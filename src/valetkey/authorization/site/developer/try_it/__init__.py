"""Try an app: programs to paste, and the authorization code flow step by step."""
