"""JOSE, small and strict: keys, signatures and the access tokens made of them."""
