"""For those who extend Valetkey: what an engine must do, a server in memory, a person."""
