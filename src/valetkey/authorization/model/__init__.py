"""Records: immutable dataclasses and what can be derived from them."""
