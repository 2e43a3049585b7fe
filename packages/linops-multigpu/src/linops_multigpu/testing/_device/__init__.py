"""A device type of torch whose operators are done in Python, on memory of the host."""
