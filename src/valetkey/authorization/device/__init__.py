"""Device authorization: the pages on which users enter and confirm the code of a device."""
