"""`valetkey demo`: both servers, a third-party app, and a scripted walk through them."""
