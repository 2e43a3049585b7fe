"""What the ranks of a mesh send, compute and need, found by runs without data."""
