"""Try an app: example programs, and the authorization code flow step by step."""
