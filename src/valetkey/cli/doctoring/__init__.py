"""The checks of `valetkey doctor`: one file for each subject."""
