"""The long evidence behind the claims; results are committed beside the code."""
