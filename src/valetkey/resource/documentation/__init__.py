"""Generated API documentation: an OpenAPI document and a page for readers."""
