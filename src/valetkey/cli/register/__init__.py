"""The data of the authorization server as the command line opens, changes and shows it."""
