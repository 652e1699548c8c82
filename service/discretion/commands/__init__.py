"""What `discretion` does, a room for each kind of work; each is loaded when one of its commands is called."""
