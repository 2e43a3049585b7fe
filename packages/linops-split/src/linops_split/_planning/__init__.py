"""Batch sizes from a memory budget: the peak of a call is found without data, then searched."""
