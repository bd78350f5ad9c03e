"""How a person secures their account: password, passkeys, codes, devices."""
