"""The words both servers speak: no input, no output, no framework."""
