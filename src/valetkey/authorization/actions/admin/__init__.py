"""Administration of users, apps and the server, by roles; independent of HTTP."""
