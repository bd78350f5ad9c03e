"""Events: everything worth remembering, one dataclass each; the docstring is its documentation."""
