"""What happens to streams and their tokens, inside transactions."""
