"""Modules as they are in memory: the tensors that they hold, and how they are replaced."""
