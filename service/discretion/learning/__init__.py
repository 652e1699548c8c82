"""The algorithms, and the one boundary through which they may ask about patients."""
