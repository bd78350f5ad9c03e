"""How files are read, rows become accounts, and exports of other servers are converted."""
