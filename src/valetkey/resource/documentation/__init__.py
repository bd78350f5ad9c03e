"""The documentation that the API gives of itself: an OpenAPI document and a page for people."""
