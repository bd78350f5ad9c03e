"""How somebody comes to another e-mail address."""
