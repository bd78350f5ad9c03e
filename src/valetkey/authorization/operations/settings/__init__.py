"""Operations on the settings of the server."""
