"""Register an app and change its settings: one form for both."""
