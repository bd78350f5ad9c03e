"""Commands derived from the table of operations: options from the input, output from the result."""
