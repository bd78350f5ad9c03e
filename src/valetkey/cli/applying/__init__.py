"""What `valetkey apply` does: read a file of users and clients, plan, carry out."""
