"""`valetkey demo`: both servers, an app that somebody else could have written, and a story."""
