"""JOSE, small and strict: keys, signatures and the access tokens built on them."""
