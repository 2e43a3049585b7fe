"""The plan of a call: what is sent, computed and added, in which order; carrying it out."""
