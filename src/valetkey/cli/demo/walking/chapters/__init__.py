"""The chapters of the walk, one function each."""
