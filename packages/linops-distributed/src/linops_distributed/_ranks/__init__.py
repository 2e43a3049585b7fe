"""The ranks of a mesh, what they send each other, and the order in which they meet."""
