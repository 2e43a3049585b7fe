"""The plan of a call (what is sent, computed and added, in which order) and its execution."""
