"""How somebody comes to another password."""
