"""The commands that speak to a service: what the HTTP API does, from a shell."""
