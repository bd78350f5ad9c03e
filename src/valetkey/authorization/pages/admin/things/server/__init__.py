"""The server in administration: keys, settings, registration, mail, programs."""
