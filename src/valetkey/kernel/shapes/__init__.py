"""Shapes of JSON objects: what is declared of their fields, and a JSON Schema as one."""
