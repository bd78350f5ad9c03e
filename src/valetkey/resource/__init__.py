"""The resource server: the API that tokens give access to; it protects itself with the SDK."""
