"""Experiments with far more requests than can be served."""
