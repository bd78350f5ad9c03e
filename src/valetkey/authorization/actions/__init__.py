"""Operations on users, apps and the server, with one set of rules for site, API and commands."""
