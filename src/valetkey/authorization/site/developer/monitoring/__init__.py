"""How an app is used: failed requests, usage, people and health."""
